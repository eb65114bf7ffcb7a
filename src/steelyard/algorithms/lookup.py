"""Look up an algorithm by its name in the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from steelyard.errors import ConfigError
from steelyard.suggest import closest

T = TypeVar("T")


def look_up(kind: str, name: str, table: Mapping[str, T], hint: str = "") -> T:
    """Return ``table[name]``, or raise an error that suggests the closest name."""
    if name in table:
        return table[name]
    match = closest(name, table)
    suggestion = f" did you mean {match!r}?" if match else ""
    raise ConfigError(f"unknown {kind} {name!r}:{suggestion} valid names are {', '.join(table)}{hint}")
