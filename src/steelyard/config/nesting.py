"""Limit the nesting depth of plain data (configurations, task specs), which is processed recursively."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

DEEPEST = 100
"""Maximum depth of nested lists and tables."""
SCALARS = frozenset((str, int, float, bool, type(None)))


def too_deep(data: Any) -> bool:
    """Whether lists and mappings are nested more than :data:`DEEPEST` levels deep."""
    if type(data) is dict and SCALARS.issuperset(map(type, cast("dict[Any, Any]", data).values())):
        return False  # fast path: most specs are flat, and there may be millions of them
    level = _containers([data])
    for _ in range(DEEPEST):
        if not level:
            return False
        level = _containers(value for one in level for value in (one.values() if isinstance(one, Mapping) else one))
    return bool(level)


def _containers(values: Iterable[Any]) -> list[Mapping[Any, Any] | Sequence[Any]]:
    return [value for value in values if isinstance(value, Mapping | list | tuple)]
