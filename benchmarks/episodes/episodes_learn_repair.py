"""Three builds per brief, with feedback in between, are compared with independent builds at equal token counts."""

from __future__ import annotations

from rich.progress import Progress

from benchmarks.episodes.repair_learning import study
from benchmarks.framework.result import Result


def measure(quick: bool, progress: Progress) -> Result:
    """Train the ``bricks-repair`` recipe; the quick version only shows that training works."""
    figures, runs = study(quick, progress)
    rows = [run.row() for run in runs]
    return Result("episodes-learn-repair", tuple(figures), rows, ". ".join(run.summary for run in runs))
