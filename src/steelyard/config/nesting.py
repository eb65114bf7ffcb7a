"""How deep plain data (a configuration, the spec of a task) may be nested: programs walk it by recursion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

DEEPEST = 100
"""Levels of lists and tables."""


def too_deep(data: Any) -> bool:
    """Whether lists and mappings are nested more than :data:`DEEPEST` levels deep."""
    level: list[Any] = [data]
    for _ in range(DEEPEST + 1):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, Mapping):
                inner.extend(cast("Mapping[Any, Any]", value).values())
            elif isinstance(value, list | tuple):
                inner.extend(cast("list[Any]", value))
        if not inner:
            return False
        level = inner
    return True
