"""Evaluation: the unbiased pass@k, and intervals over tasks. (The training estimator is in `subsets.py`.)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray


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
    """A mean over tasks with its interval."""

    mean: float
    low: float
    high: float


def wilson_interval(values: Sequence[float], *, level: float = 0.95) -> Interval:
    """Wilson's score interval of the mean of shares (success, pass@k), one value in 0 .. 1 per task. Wilson 1927.

    ``(p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)`` with mean p of n tasks. Of all values in
    0 .. 1 with that mean, those of 0 and 1 vary most, so shares in between are covered too, by a wider interval than
    they need. It holds for few tasks, where the bootstrap is too narrow, and is never a point.
    """
    value_T = _checked(values, level)
    if value_T.min() < 0 or value_T.max() > 1:
        raise ValueError(f"shares lie within 0 .. 1, got {value_T.min()} .. {value_T.max()}: use bootstrap_interval")
    mean, n = float(value_T.mean()), len(value_T)
    z = NormalDist().inv_cdf((1 + level) / 2)
    centre = mean + z**2 / (2 * n)
    half = z * sqrt(mean * (1 - mean) / n + z**2 / (4 * n**2))
    scale = 1 + z**2 / n
    return Interval(mean, max((centre - half) / scale, 0.0), min((centre + half) / scale, 1.0))


def bootstrap_interval(
    values: Sequence[float], *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Percentile bootstrap of the mean over tasks: the middle ``level`` of the means of resampled tasks. Efron 1979.

    Give one value per task, not per sample: samples of a task are not independent. For rewards of any range; with fewer
    than about 20 tasks it is too narrow.
    """
    value_T = _checked(values, level)
    rng = np.random.default_rng(seed)
    means = np.array([rng.choice(value_T, len(value_T)).mean() for _ in range(resamples)])
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(value_T.mean()), float(low), float(high))


def _checked(values: Sequence[float], level: float) -> NDArray[np.float64]:
    if not len(values):
        raise ValueError("no values to take an interval of")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    return np.asarray(values, dtype=np.float64)
