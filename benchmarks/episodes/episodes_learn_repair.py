"""Three builds with findings between them are compared with independent builds, at equal tokens."""

from __future__ import annotations

from rich.progress import Progress

from benchmarks.episodes.repair_learning import study
from benchmarks.framework.result import Result


def measure(quick: bool, progress: Progress) -> Result:
    """Train ``bricks-repair``; the quick version only shows that it trains."""
    figures, runs = study(quick, progress)
    rows = [run.row() for run in runs]
    return Result("episodes-learn-repair", tuple(figures), rows, ". ".join(run.summary for run in runs))
