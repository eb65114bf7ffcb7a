"""How deep plain data (a configuration, the spec of a task) may be nested: programs walk it by recursion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

DEEPEST = 100
"""Levels of lists and tables."""


def too_deep(data: Any) -> bool:
    """Whether lists and mappings are nested more than :data:`DEEPEST` levels deep."""
    level = _containers([data])
    for _ in range(DEEPEST):
        if not level:
            return False
        level = _containers(value for one in level for value in (one.values() if isinstance(one, Mapping) else one))
    return bool(level)


def _containers(values: Iterable[Any]) -> list[Mapping[Any, Any] | Sequence[Any]]:
    return [value for value in values if isinstance(value, Mapping | list | tuple)]
