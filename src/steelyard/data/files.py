"""Tasks from files and hub datasets: JSONL, JSON, parquet, ``hf:name``. Every error names the file and the line."""

from __future__ import annotations

import gc
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from steelyard.data.tasks import TOO_DEEP, require_distinct_ids, task_from_row
from steelyard.defaults import DATASET_SPLIT, PROMPT_COLUMN
from steelyard.errors import DataError, MissingExtraError
from steelyard.types import Task

HUB = "hf:"
Row = tuple[str, str, Any]
"""(default id, location for error messages, data)."""


def load_tasks(
    path: str | Path,
    *,
    prompt_column: str = PROMPT_COLUMN,
    template: str | None = None,
    split: str = DATASET_SPLIT,
    subset: str | None = None,
    limit: int | None = None,
) -> list[Task]:
    """Load tasks from ``*.jsonl``, ``*.json`` (a list, or ``{"prompts": [...]}``), ``*.parquet`` or a hub dataset.

    ``"hf:owner/name"`` names a Hugging Face dataset, with its ``subset`` and ``split``. A row without an ``id`` gets
    its line or row number as id. ``template`` builds prompts from columns, as ``tasks.template`` does.
    """
    rows = (
        _hub_rows(str(path).removeprefix(HUB), subset, split) if str(path).startswith(HUB) else _file_rows(Path(path))
    )
    tasks: list[Task] = []
    with _collector_paused():
        for default_id, where, data in itertools.islice(rows, limit):
            row = {prompt_column: data} if isinstance(data, str) else data
            if not isinstance(row, Mapping):
                raise DataError(f"{where}: expected an object with {prompt_column!r}, got {type(data).__name__}")
            tasks.append(
                task_from_row(row, where=where, default_id=default_id, prompt_column=prompt_column, template=template)
            )
    if not tasks:
        raise DataError(f"{path} contains no tasks")
    return require_distinct_ids(tasks, str(path))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause garbage collection: tasks have no cycles, and with a million of them the collector slows loading down."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _file_rows(path: Path) -> Iterable[Row]:
    readers = {".jsonl": _jsonl_rows, ".json": _json_rows, ".parquet": _parquet_rows}
    if path.suffix not in readers:
        raise DataError(
            f"{path}: cannot read tasks from {path.suffix!r} files; use {', '.join(readers)}, or '{HUB}owner/name' for "
            "a hub dataset"
        )
    if not path.is_file():
        raise DataError(f"{path}: no such file (looked in {Path.cwd()})")
    return readers[path.suffix](path)


def _jsonl_rows(path: Path) -> Iterable[Row]:
    name = str(path)
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.isspace():
                continue
            where = f"{name}, line {number}"
            try:
                yield str(number), where, json.loads(_decoded(line, where))
            except json.JSONDecodeError as error:
                raise DataError(f"{where}: not JSON ({error.msg} at column {error.colno})") from None
            except RecursionError:
                raise DataError(TOO_DEEP.format(where=where)) from None


def _decoded(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not UTF-8 ({error.reason} at byte {error.start + 1}); save it as UTF-8") from None


def _json_rows(path: Path) -> Iterable[Row]:
    try:
        data = json.loads(_decoded(path.read_bytes(), str(path)))
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {error.lineno}: not JSON ({error.msg} at column {error.colno})") from None
    except RecursionError:
        raise DataError(TOO_DEEP.format(where=path)) from None
    rows = data.get("prompts") if isinstance(data, Mapping) else data
    if not isinstance(rows, list):
        raise DataError(f'{path}: expected a list of tasks or {{"prompts": [...]}}')
    for number, row in enumerate(rows, start=1):
        yield str(number), f"{path}, entry {number}", row


def _parquet_rows(path: Path) -> Iterable[Row]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError(f"reading {path.name}", "data") from None
    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not a parquet file: {error}") from None
    return [(str(number), f"{path}, row {number}", row) for number, row in enumerate(rows, start=1)]


def _hub_rows(name: str, subset: str | None, split: str) -> Iterable[Row]:
    try:
        import datasets
    except ImportError:
        raise MissingExtraError(f"the hub dataset {name}", "data") from None
    try:
        rows = datasets.load_dataset(name, subset, split=split)
    except Exception as error:
        raise DataError(f"{HUB}{name} (subset {subset}, split {split}): {type(error).__name__}: {error}") from error
    return ((str(number), f"{HUB}{name}, row {number}", row) for number, row in enumerate(rows, start=1))
