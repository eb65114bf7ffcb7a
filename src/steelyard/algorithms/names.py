"""Look-up of algorithms by the names that configurations use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from steelyard.errors import ConfigError
from steelyard.suggest import closest

T = TypeVar("T")


def look_up(kind: str, name: str, table: Mapping[str, T], hint: str = "") -> T:
    """The entry of a table of names, or an error that suggests the nearest name."""
    if name in table:
        return table[name]
    match = closest(name, table)
    suggestion = f" did you mean {match!r}?" if match else ""
    raise ConfigError(f"unknown {kind} {name!r}:{suggestion} known are {', '.join(table)}{hint}")
