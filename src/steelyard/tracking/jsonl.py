"""``metrics.jsonl``: one JSON object a line, always valid, cut back to the checkpoint when a run resumes.

Numbers are written by ``repr``, so they read back bit for bit. JSON has no NaN: such values are the strings
``"nan"``, ``"inf"`` and ``"-inf"``, and :func:`read_metrics` turns them back. A histogram is
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
"""Name of the file in a run folder."""
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class JsonlTracker:
    """Appends a line a call: ``step`` first, then the metrics by name. Each line reaches the system at once."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    def log(self, step: int, metrics: Mapping[str, Metric]) -> None:
        row: dict[str, Any] = {"step": step, **{name: _plain(metrics[name]) for name in sorted(metrics)}}
        line = json.dumps(row, allow_nan=False).encode() + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            whole = file.seek(0, os.SEEK_END)
            try:
                if file.write(line) < len(line):  # the disk took what it had room for
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            except OSError:
                file.truncate(whole)  # half a line would spoil the file for its readers
                raise

    def samples(self, step: int, shown: Sequence[ShownSample]) -> None:
        """Samples are artifacts, not metrics."""

    def rewind(self, step: int) -> None:
        """Cut the file back to its whole lines up to ``step``: written beside, then renamed over it."""
        if not self.path.exists():
            return
        kept = [line for line in _lines(self.path) if (row := _row(line)) is not None and row["step"] <= step]
        beside = self.path.with_name(f".{self.path.name}.writing")
        with beside.open("w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in kept)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)

    def close(self) -> None:
        """Nothing is held open between lines."""


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The rows of a ``metrics.jsonl``; a torn last line (the run is being written, or was killed) is left out."""
    rows: list[dict[str, Any]] = []
    lines = _lines(path)
    for number, line in enumerate(lines, start=1):
        row = _row(line)
        if row is not None:
            rows.append({name: _number(value) for name, value in row.items()})
        elif number < len(lines):
            raise DataError(f"{path}: line {number} is no JSON object with a step: {line[:80]!r}")
    return rows


def _lines(path: Path) -> list[str]:
    """Lines without their ends. What follows the last line feed is torn, and empty if nothing does."""
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
