"""Look-up of algorithms by the names that configurations use."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

from steelyard.errors import ConfigError

T = TypeVar("T")


def look_up(kind: str, name: str, table: Mapping[str, T], hint: str = "") -> T:
    """The entry of a table of names, or an error that suggests the nearest name."""
    if name in table:
        return table[name]
    close = difflib.get_close_matches(name, table)
    suggestion = f" did you mean {close[0]!r}?" if close else ""
    raise ConfigError(f"unknown {kind} {name!r}:{suggestion} known are {', '.join(table)}{hint}")
