"""Steelyard trains faster and with less memory than TRL's GRPOTrainer on the same work.

Every run is a fresh process with its own peak memory, and the two sides alternate. Memory is the peak of the process
minus its memory after imports.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.progress import Progress

from benchmarks.framework.process import run_module
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.speed.workloads import ROWS, Workload, write_from_scratch, write_models

SIDES = {"Steelyard": "benchmarks.speed.run_steelyard", "TRL": "benchmarks.speed.run_trl"}
TIME_BARS = {"full-length": 0.7, "varying": 0.5, "from-scratch": 0.5}
QUICK_BAR = 1.0
"""Two short steps in one process are too noisy for a tight bar."""
MEMORY_BARS = {"full-length": 0.85, "lora": 0.6}
Runs = Sequence[Mapping[str, Any]]


def measure(quick: bool, progress: Progress) -> Result:
    """Measure every row, alternating between the sides; the quick version takes one short run of the small policy."""
    rows = [replace(ROWS[-1], group=32, new_tokens=100, steps=2, runs=1)] if quick else list(ROWS)
    task = progress.add_task("vs-trl", total=2 * sum(row.runs for row in rows))
    figures: list[Figure] = []
    details: list[dict[str, Cell]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if quick:
            write_from_scratch(folder / "scratch")
        else:
            write_models(folder)
        for row in rows:
            runs: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
            for number in range(row.runs):
                for side, module in SIDES.items():
                    progress.update(task, description=f"{row.name}, {side}, run {number + 1}")
                    runs[side].append(run_module(module, str(folder / row.model), json.dumps(asdict(row))))
                    progress.advance(task)
            found = compare(row, runs["Steelyard"], runs["TRL"])
            figures += [replace(figure, bar=QUICK_BAR) for figure in found] if quick else found
            details += [detail(row, side, runs[side]) for side in SIDES]
    return Result("vs-trl", tuple(figures), details)


def compare(row: Workload, ours: Runs, theirs: Runs) -> list[Figure]:
    """Return the ratios that have a bar; the spread is over the ratios of adjacent runs."""
    figures: list[Figure] = []
    if row.name in TIME_BARS:
        pairs = [_step(a) / _step(b) for a, b in zip(ours, theirs, strict=True)]
        ratio = statistics.median(map(_step, ours)) / statistics.median(map(_step, theirs))
        figures.append(Figure(f"{row.name} step time / TRL", ratio, "<=", TIME_BARS[row.name], spread=_range(pairs)))
    if row.name in MEMORY_BARS:
        pairs = [a["rss"] / b["rss"] for a, b in zip(ours, theirs, strict=True)]
        bar = MEMORY_BARS[row.name]
        figures.append(Figure(f"{row.name} memory / TRL", statistics.median(pairs), "<=", bar, spread=_range(pairs)))
    return figures


def detail(row: Workload, side: str, runs: Runs) -> dict[str, Cell]:
    """Return one row of the table: medians over the runs of one side."""
    seconds = [_step(run) for run in runs]
    length = statistics.mean(run["mean_length"] for run in runs)
    step = statistics.median(seconds)
    return {
        "row": row.name,
        "side": side,
        "s/step": step,
        "spread": _range(seconds),
        "tokens/sample": length,
        "tokens/s": length * row.group / step,
        "peak MiB": round(statistics.median(run["rss"] for run in runs) / 2**20),
        "imports MiB": round(statistics.median(run["baseline"] for run in runs) / 2**20),
        "weights": ", ".join(runs[0]["dtypes"]),
        "gradient checkpointing": "on" if runs[0]["checkpointing"] else "off",
    }


def _step(run: Mapping[str, Any]) -> float:
    """Return the mean seconds per step; lengths vary between steps, and the mean weights long steps by their time."""
    return statistics.mean(run["seconds"])


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values)
