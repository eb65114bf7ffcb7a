"""Intervals over a few seeds use Student's t, and the distance between two intervals is negative if they overlap."""

from __future__ import annotations

import pytest
from scipy import stats

from benchmarks.framework.seeds import T_95, distance, interval


@pytest.mark.parametrize("degrees", T_95)
def test_the_constants_are_students(degrees: int) -> None:
    assert T_95[degrees] == pytest.approx(stats.t.ppf(0.975, degrees), abs=5e-4)


def test_the_interval_is_that_of_the_mean() -> None:
    values = [0.8, 0.9, 0.85]
    low, high = stats.t.interval(0.95, 2, loc=0.85, scale=stats.sem(values))
    assert interval(values) == pytest.approx((low, high), abs=1e-4)


def test_the_distance_is_positive_only_without_overlap() -> None:
    one, near, far = [1.0, 1.1, 1.2], [1.2, 1.3, 1.4], [9.0, 9.1, 9.2]
    assert distance(one, near) < 0 < distance(one, far)
    assert distance(one, far) == pytest.approx(interval(far)[0] - interval(one)[1])
    assert distance(far, one) == distance(one, far)
