"""Policies learn in episodes: to bisect unseen ranges, to use a calculator, and to repair brick structures.

(a) ``guess``: a model trained from scratch needs at most 1.05 times the questions of bisection, over all numbers of
ranges that training never shows. (b) ``calculator``: a language model with a tool against the base model and against
training without the tool. (c) ``bricks-repair``: builds with findings between them against independent builds, at equal
tokens.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from rich.progress import Progress

from benchmarks.framework.result import Cell, Figure, Result

PARTS = (
    "benchmarks.episodes.guess_learning",
    "benchmarks.episodes.calculator",
    "benchmarks.episodes.repair_learning",
)
"""Modules with ``study(quick, progress)``, which returns figures and runs. A run has a ``summary`` and a ``row()`` with
the columns part, run, compared with, before, after and minutes."""


def measure(quick: bool, progress: Progress) -> Result:
    """Run all parts; their quick versions only show that each one trains."""
    figures: list[Figure] = []
    rows: list[dict[str, Cell]] = []
    summaries: list[str] = []
    for name in PARTS:
        if find_spec(name) is None:
            continue
        part: Any = import_module(name)
        found, runs = part.study(quick, progress)
        figures += found
        rows += [run.row() for run in runs]
        summaries += [run.summary for run in runs]
    return Result("episodes-learn", tuple(figures), rows, ". ".join(summaries))
