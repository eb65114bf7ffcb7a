"""What a handful of seeds say: Student's interval of their mean, and whether two of them meet."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from math import sqrt

T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}
"""Student's t for 95% of both sides, by the degrees of freedom."""


def interval(values: Sequence[float]) -> tuple[float, float]:
    """mean ± t s / √n. A bootstrap over three values would be narrower than what they know."""
    half = T_95[len(values) - 1] * statistics.stdev(values) / sqrt(len(values))
    return statistics.mean(values) - half, statistics.mean(values) + half


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Between the two intervals; negative: they overlap by so much."""
    (low, high), (other_low, other_high) = interval(one), interval(other)
    return max(low, other_low) - min(high, other_high)
