"""Confidence intervals over a few seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from math import sqrt

T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}
"""Two-sided 95% quantile of Student's t distribution, by degrees of freedom."""


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return mean ± t s / √n. A bootstrap interval over three values would be too narrow."""
    half = T_95[len(values) - 1] * statistics.stdev(values) / sqrt(len(values))
    return statistics.mean(values) - half, statistics.mean(values) + half


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the gap between the two confidence intervals; negative if they overlap."""
    (low, high), (other_low, other_high) = interval(one), interval(other)
    return max(low, other_low) - min(high, other_high)
