"""Evaluation: the unbiased pass@k and bootstrap intervals. (The training estimator of that name is in `subsets.py`.)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np


def pass_at_k_estimate(samples: int, successes: int, k: int) -> float:
    """``1 - C(n - c, k) / C(n, k)``: chance that k of n samples without replacement hold one of the c successes.

    Unbiased, unlike ``1 - (1 - c/n)^k``. Chen et al., arXiv 2107.03374.
    """
    if not 0 <= successes <= samples:
        raise ValueError(f"successes must be within 0 .. {samples} samples, got {successes}")
    if not 1 <= k <= samples:
        raise ValueError(f"pass@{k} needs at least that many samples a task, got {samples}: sample more, or lower k")
    return 1 - comb(samples - successes, k) / comb(samples, k)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its bootstrap interval."""

    mean: float
    low: float
    high: float


def bootstrap_interval(
    values: Sequence[float], *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Percentile bootstrap of the mean over tasks: the middle ``level`` of the means of resampled tasks. Efron 1979.

    Give one value per task, not per sample: samples of a task are not independent.
    """
    if not len(values):
        raise ValueError("no values to take an interval of")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    value_T = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(seed)
    means = np.array([rng.choice(value_T, len(value_T)).mean() for _ in range(resamples)])
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(value_T.mean()), float(low), float(high))
