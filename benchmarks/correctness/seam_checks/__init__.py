"""Checks for fixed bugs, one module per topic; each lists its checks as ``CHECKS: tuple[SeamCheck, ...]``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.framework.result import Comparison


@dataclass(frozen=True)
class SeamCheck:
    """A fixed bug: a figure that reveals it, its value before the fix, and the bar."""

    item: str
    """The topic or the claim, in a few words."""
    figure: str
    """Description of the figure."""
    before: float
    """The figure with the fix reverted: measured, reported (hidden tokens) or derived (rounding bias)."""
    measure: Callable[[bool], float]
    """Measures the figure; the argument is ``quick``."""
    comparison: Comparison
    bar: float
    unit: str = ""
