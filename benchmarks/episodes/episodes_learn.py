"""A policy learns to bisect ranges that it has never seen: it needs at most 1.05 times the questions of bisection."""

from __future__ import annotations

from rich.progress import Progress

from benchmarks.episodes.guess_learning import study
from benchmarks.framework.result import Result


def measure(quick: bool, progress: Progress) -> Result:
    """Train ``guess``; the quick version only shows that it trains."""
    figures, runs = study(quick, progress)
    return Result("episodes-learn", tuple(figures), [run.row() for run in runs], ". ".join(run.summary for run in runs))
