"""One module per topic; each lists its checks as ``CHECKS: tuple[SeamCheck, ...]``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.framework.result import Comparison


@dataclass(frozen=True)
class SeamCheck:
    """A fault that was fixed: a figure that shows it, the figure before the fix, and the bar."""

    item: str
    """Which claim, in a few words."""
    figure: str
    """What the number is."""
    before: float
    """The figure with the fix undone: measured, or reported (hidden tokens), or derived (bias of rounding)."""
    measure: Callable[[bool], float]
    """Measures afresh; the argument is ``quick``."""
    comparison: Comparison
    bar: float
    unit: str = ""
