"""``metrics.jsonl``: one JSON object per line, truncated to the checkpoint when a run resumes.

Numbers are written with ``repr``, so they read back exactly. JSON has no NaN or infinity, so these are the strings
``"nan"``, ``"inf"`` and ``"-inf"``; :func:`read_metrics` converts them back. A histogram is
``{"counts": [...], "edges": [...]}``.
"""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steelyard.errors import DataError
from steelyard.tracking.base import Histogram, Metric
from steelyard.tracking.shown import ShownSample

METRICS = "metrics.jsonl"
"""File name of the metrics in a run folder."""
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class JsonlTracker:
    """Appends one line per call: ``step`` first, then the metrics by name. Lines are not buffered."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    def log(self, step: int, metrics: Mapping[str, Metric]) -> None:
        row: dict[str, Any] = {"step": step, **{name: _plain(metrics[name]) for name in sorted(metrics)}}
        line = json.dumps(row, allow_nan=False).encode() + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                if file.write(line) < len(line):  # the disk is full
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            except OSError:
                file.truncate(end)  # a partial line would make the file invalid
                raise

    def samples(self, step: int, shown: Sequence[ShownSample]) -> None:
        """Do nothing: only metrics are written."""

    def rewind(self, step: int) -> None:
        """Keep only complete lines up to ``step``, in a new file that replaces the old one."""
        if not self.path.exists():
            return
        kept = [line for line in _lines(self.path) if (row := _row(line)) is not None and row["step"] <= step]
        temporary = self.path.with_name(f".{self.path.name}.writing")
        with temporary.open("w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in kept)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)

    def close(self) -> None:
        """Do nothing: the file is not kept open between lines."""


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a ``metrics.jsonl``; an incomplete last line of a running or killed run is ignored."""
    rows: list[dict[str, Any]] = []
    lines = _lines(path)
    for number, line in enumerate(lines, start=1):
        row = _row(line)
        if row is not None:
            rows.append({name: _number(value) for name, value in row.items()})
        elif number < len(lines):
            raise DataError(f"{path}, line {number}: not a JSON object with a step: {line[:80]!r}")
    return rows


def _lines(path: Path) -> list[str]:
    """Split a file at line feeds; the last element is an incomplete line, or empty."""
    return path.read_text(encoding="utf-8", errors="replace").split("\n")


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and isinstance(row.get("step"), int) else None


def _plain(metric: Metric) -> Any:
    if isinstance(metric, Histogram):
        return {"counts": list(metric.counts), "edges": list(metric.edges)}
    if isinstance(metric, int):
        return int(metric)
    value = float(metric)
    return value if math.isfinite(value) else repr(value)


def _number(value: Any) -> Any:
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value
