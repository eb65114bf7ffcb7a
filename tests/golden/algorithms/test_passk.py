"""Unbiased pass@k computed by hand and by enumeration, and confidence intervals."""

from __future__ import annotations

from itertools import combinations
from math import comb, sqrt
from statistics import NormalDist, mean

import numpy as np
import pytest

from steelyard.algorithms.passk import Interval, bootstrap_interval, pass_at_k_estimate, wilson_interval

pytestmark = pytest.mark.golden


def test_by_hand() -> None:
    # 5 samples, 2 correct: pass@1 = 2/5, pass@2 = 1 - C(3,2)/C(5,2) = 1 - 3/10, pass@4 = 1 since only 3 are wrong.
    assert pass_at_k_estimate(5, 2, 1) == pytest.approx(0.4, rel=1e-12)
    assert pass_at_k_estimate(5, 2, 2) == pytest.approx(0.7, rel=1e-12)
    assert pass_at_k_estimate(5, 2, 4) == 1.0
    assert pass_at_k_estimate(5, 0, 5) == 0.0
    assert pass_at_k_estimate(1, 1, 1) == 1.0


def test_by_enumeration_of_all_subsets() -> None:
    for n in range(1, 8):
        for c in range(n + 1):
            for k in range(1, n + 1):
                subsets = combinations([i < c for i in range(n)], k)
                assert pass_at_k_estimate(n, c, k) == pytest.approx(mean(any(s) for s in subsets), abs=1e-12)


def test_invalid_counts() -> None:
    text = r"^pass@6 .*samples \(5\): draw more samples per task"
    with pytest.raises(ValueError, match=text):
        pass_at_k_estimate(5, 2, 6)
    with pytest.raises(ValueError, match="pass@0"):
        pass_at_k_estimate(5, 2, 0)
    with pytest.raises(ValueError, match=r"^successes = 6 .*samples \(5\)$"):
        pass_at_k_estimate(5, 6, 1)
    with pytest.raises(ValueError, match="successes = -1"):
        pass_at_k_estimate(5, -1, 1)


def test_interval_of_equal_values_is_a_point() -> None:
    assert bootstrap_interval([0.25] * 7) == Interval(0.25, 0.25, 0.25)


def test_interval_is_the_percentiles_of_seeded_resamples() -> None:
    values = [0.03, 0.94, 0.51, 0.27, 1.0]
    rng = np.random.default_rng(3)
    means = sorted(rng.choice(np.array(values), 5).mean() for _ in range(101))
    interval = bootstrap_interval(values, level=0.8, resamples=101, seed=3)
    # 101 means: the 10% and 90% quantiles are the values at ranks 10 and 90, counting from 0.
    assert interval == Interval(pytest.approx(0.55), pytest.approx(means[10]), pytest.approx(means[90]))  # type: ignore[arg-type]


def test_interval_near_the_normal_one() -> None:
    # 400 tasks, half of them solved: 0.5 +- 1.96 * 0.5 / 20 = 0.451 .. 0.549.
    interval = bootstrap_interval([0.0, 1.0] * 200)
    assert interval.mean == 0.5
    assert interval.low == pytest.approx(0.451, abs=0.006)
    assert interval.high == pytest.approx(0.549, abs=0.006)


def test_interval_settings_and_precision() -> None:
    values = np.random.default_rng(9).random(20, dtype=np.float32)
    interval = bootstrap_interval(list(values))
    assert interval == bootstrap_interval(list(values), level=0.95, resamples=2000, seed=0)
    assert interval != bootstrap_interval(list(values), resamples=2001)
    assert interval != bootstrap_interval(list(values), seed=1)
    assert interval.mean == pytest.approx(values.astype(np.float64).mean(), rel=1e-14)


def test_interval_errors() -> None:
    with pytest.raises(ValueError, match="values is empty"):
        bootstrap_interval([])
    for level in (0.0, 1.0, 95.0):
        with pytest.raises(ValueError, match=f"^level = {level} must be between 0 and 1"):
            bootstrap_interval([1.0], level=level)


TWO = NormalDist().cdf(2) - NormalDist().cdf(-2)
"""The confidence level at which z = 2."""


@pytest.mark.parametrize(
    ("values", "mean", "centre", "half"),
    [
        # n = 4: (1/2 + 4/8) / 2 and 2 sqrt(1/16 + 4/64) / 2
        ([0.0, 1.0, 1.0, 0.0], 1 / 2, 1 / 2, sqrt(1 / 8)),
        # n = 12: (1/4 + 4/24) / (4/3) and 2 sqrt(3/192 + 4/576) / (4/3)
        ([0.5, 0.25, 0.0] * 4, 1 / 4, 5 / 16, 1.5 * sqrt(1 / 64 + 1 / 144)),
        # n = 1: (1 + 4/2) / 5 and 2 sqrt(4/4) / 5
        ([1.0], 1.0, 3 / 5, 2 / 5),
        ([0.0], 0.0, 2 / 5, 2 / 5),
    ],
)
def test_wilson_interval(values: list[float], mean: float, centre: float, half: float) -> None:
    found = wilson_interval(values, level=TWO)
    assert (found.mean, found.low, found.high) == pytest.approx(
        (mean, centre - half, centre + half), rel=1e-9, abs=1e-12
    )


def test_wilson_interval_stays_within_0_and_1_and_is_at_95_percent() -> None:
    for tasks in range(1, 200):
        assert wilson_interval([0.0] * tasks).low >= 0.0
        assert wilson_interval([1.0] * tasks).high <= 1.0
    assert wilson_interval([0.0, 1.0]) == wilson_interval([0.0, 1.0], level=0.95)
    # all 8 tasks solved: the upper limit of 1 - high is z^2 / (n + z^2), with z = 1.959964
    assert wilson_interval([1.0] * 8).low == pytest.approx(8 / (8 + 1.959964**2), rel=1e-6)


@pytest.mark.parametrize("tasks", [8, 16, 64])
def test_wilson_covers_where_the_bootstrap_does_not(tasks: int) -> None:
    """Compute the exact coverage for tasks that are solved with probability p, summed over all success counts."""
    covered = []
    for chance in np.linspace(0.05, 0.95, 46):
        intervals = [wilson_interval([1.0] * solved + [0.0] * (tasks - solved)) for solved in range(tasks + 1)]
        weights = [comb(tasks, c) * chance**c * (1 - chance) ** (tasks - c) for c in range(tasks + 1)]
        covered.append(sum(w for w, found in zip(weights, intervals, strict=True) if found.low <= chance <= found.high))
    assert min(covered) > 0.89
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)


def test_wilson_errors() -> None:
    with pytest.raises(ValueError, match="values is empty"):
        wilson_interval([])
    with pytest.raises(ValueError, match=r"^level = 1\.0 must be between 0 and 1"):
        wilson_interval([1.0], level=1.0)
    for values in ([0.5, 1.5], [-0.5, 0.5]):
        found = f"{min(values)} to {max(values)}"
        with pytest.raises(ValueError, match=rf"values in \[0, 1\], got {found}: use bootstrap_interval$"):
            wilson_interval(values)
