"""Unbiased pass@k for evaluation, and confidence intervals over tasks. Pass@k for training is in `subsets.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray


def pass_at_k_estimate(samples: int, successes: int, k: int) -> float:
    """Return ``1 - C(n - c, k) / C(n, k)``, the probability that k of n samples include one of the c successes.

    The samples are drawn without replacement. The estimate is unbiased, unlike ``1 - (1 - c/n)^k``. Chen et al.,
    arXiv 2107.03374.
    """
    if not 0 <= successes <= samples:
        raise ValueError(f"successes = {successes} must be between 0 and samples ({samples})")
    if not 1 <= k <= samples:
        raise ValueError(f"pass@{k} needs k between 1 and samples ({samples}): draw more samples per task, or change k")
    return 1 - comb(samples - successes, k) / comb(samples, k)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over tasks with its confidence interval."""

    mean: float
    low: float
    high: float


def wilson_interval(values: Sequence[float], *, level: float = 0.95) -> Interval:
    """Wilson score interval for the mean of success rates or pass@k, one value between 0 and 1 per task. Wilson 1927.

    ``(p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)``, where p is the mean over n tasks. For a
    given mean, values of exactly 0 and 1 have the largest variance, so the interval is conservative for values in
    between. The interval is valid even for few tasks, where the bootstrap is too narrow, and its width is never zero.
    """
    value_T = _checked(values, level)
    if value_T.min() < 0 or value_T.max() > 1:
        raise ValueError(
            f"wilson_interval needs values in [0, 1], got {value_T.min()} to {value_T.max()}: use bootstrap_interval"
        )
    mean, n = float(value_T.mean()), len(value_T)
    z = NormalDist().inv_cdf((1 + level) / 2)
    centre = mean + z**2 / (2 * n)
    half = z * sqrt(mean * (1 - mean) / n + z**2 / (4 * n**2))
    scale = 1 + z**2 / n
    return Interval(mean, max((centre - half) / scale, 0.0), min((centre + half) / scale, 1.0))


def bootstrap_interval(
    values: Sequence[float], *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Percentile bootstrap interval for the mean over tasks. Efron 1979.

    Resamples the tasks and returns the interval that contains the central fraction ``level`` of the means. Pass one
    value per task, not per sample, because samples of the same task are not independent. Values may have any range.
    With fewer than about 20 tasks the interval is too narrow.
    """
    value_T = _checked(values, level)
    rng = np.random.default_rng(seed)
    means = np.array([rng.choice(value_T, len(value_T)).mean() for _ in range(resamples)])
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(value_T.mean()), float(low), float(high))


def _checked(values: Sequence[float], level: float) -> NDArray[np.float64]:
    if not len(values):
        raise ValueError("values is empty: an interval needs at least one value")
    if not 0 < level < 1:
        raise ValueError(f"level = {level} must be between 0 and 1, for example 0.95")
    return np.asarray(values, dtype=np.float64)
