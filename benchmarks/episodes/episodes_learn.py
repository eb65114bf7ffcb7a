"""A policy learns to bisect ranges it has never seen, with at most 1.05 times as many questions as bisection needs."""

from __future__ import annotations

from rich.progress import Progress

from benchmarks.episodes.guess_learning import study
from benchmarks.framework.result import Result


def measure(quick: bool, progress: Progress) -> Result:
    """Train the ``guess`` recipe; the quick version only shows that training works."""
    figures, runs = study(quick, progress)
    return Result("episodes-learn", tuple(figures), [run.row() for run in runs], ". ".join(run.summary for run in runs))
