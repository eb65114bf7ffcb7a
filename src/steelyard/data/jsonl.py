"""Writes tasks from Python as JSONL, so that a run can be evaluated and resumed without the program that started it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from steelyard.data.tasks import canonical
from steelyard.defaults import PROMPT_COLUMN
from steelyard.types import Task

MAX_ROWS = 100_000
"""Longer lists are not copied into the run folder; they should be passed as a file."""


def as_jsonl(rows: object, prompt_column: str = PROMPT_COLUMN) -> str | None:
    """Return the rows as lines that ``load_tasks`` reads back as the same tasks, including ids.

    Returns None if that is impossible: rows that can be read only once, values that JSON cannot represent, or more than
    :data:`MAX_ROWS` rows.
    """
    if not isinstance(rows, list | tuple) or not 0 < len(rows) <= MAX_ROWS:
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
    return line if canonical(json.loads(line)) == canonical(columns) else None


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
