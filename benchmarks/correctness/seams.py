"""Fixed bugs between components stay fixed: each figure meets its bar and is shown with its value before the fix.

The checks are in ``seam_checks``, one module per topic. "Before" is the figure with the fix reverted.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from rich.progress import Progress

from benchmarks.correctness import seam_checks
from benchmarks.correctness.seam_checks import SeamCheck
from benchmarks.framework.result import Cell, Figure, Result


def checks() -> list[SeamCheck]:
    """Return all checks, ordered by module name."""
    names = sorted(path.stem for path in Path(seam_checks.__path__[0]).glob("*.py") if path.stem != "__init__")
    return [check for name in names for check in import_module(f"{seam_checks.__name__}.{name}").CHECKS]


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses smaller samples with the same bars."""
    found = checks()
    task = progress.add_task("seams", total=len(found))
    figures: list[Figure] = []
    details: list[dict[str, Cell]] = []
    for check in found:
        progress.update(task, description=check.item)
        figure = Figure(f"{check.item}: {check.figure}", check.measure(quick), check.comparison, check.bar, check.unit)
        figures.append(figure)
        details.append(
            {
                "item": check.item,
                "figure": check.figure,
                "before": check.before,
                "now": figure.value,
                "bar": f"{check.comparison} {check.bar:g}",
                "reached": "ok" if figure.ok else "short",
            }
        )
        progress.advance(task)
    return Result("seams", tuple(figures), details)
