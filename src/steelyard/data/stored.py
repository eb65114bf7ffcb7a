"""Tasks from Python as JSONL, so that a run can be evaluated and resumed without the program that started it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from steelyard.data.tasks import plain
from steelyard.defaults import PROMPT_COLUMN
from steelyard.types import Task

MOST_ROWS = 100_000
"""Longer lists are not copied into the run folder; they belong in a file of their own."""


def as_jsonl(rows: object, prompt_column: str = PROMPT_COLUMN) -> str | None:
    """The rows as lines that ``load_tasks`` reads back as the same tasks, ids included. None if that is impossible:
    rows that can be read only once, values that JSON does not have, or more than :data:`MOST_ROWS` of them.
    """
    if not isinstance(rows, list | tuple) or not 0 < len(rows) <= MOST_ROWS:
        return None
    lines = [_line(row, index, prompt_column) for index, row in enumerate(cast("list[object]", rows))]
    return None if None in lines else "".join(f"{line}\n" for line in lines)


def _line(row: object, index: int, prompt_column: str) -> str | None:
    columns = _columns(row, index, prompt_column)
    if columns is None:
        return None
    try:
        line = json.dumps(columns, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
    return line if plain(json.loads(line)) == plain(columns) else None


def _columns(row: object, index: int, prompt_column: str) -> dict[str, Any] | None:
    if isinstance(row, str):
        return {"id": str(index), prompt_column: row}
    if isinstance(row, Task):
        own = {"id": row.id, prompt_column: row.prompt}
        own |= {} if row.difficulty is None else {"difficulty": row.difficulty}
        reserved = {"id", prompt_column, "difficulty"}
        return own | dict(row.spec) if reserved.isdisjoint(row.spec) else None
    if isinstance(row, Mapping):
        columns = dict(cast("Mapping[str, Any]", row))
        given = columns.get("id")
        return columns | {"id": str(index if given is None else given)}
    return None
