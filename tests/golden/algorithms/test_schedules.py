"""Schedules compared with values computed by hand."""

from __future__ import annotations

from math import sqrt

import pytest

from steelyard.algorithms.schedules import Schedule
from steelyard.errors import ConfigError

pytestmark = pytest.mark.golden


def values(schedule: Schedule, steps: list[int]) -> list[float]:
    return [schedule.value(step) for step in steps]


def test_the_default_is_always_one() -> None:
    assert values(Schedule(), [0, 1, 1000]) == [1.0, 1.0, 1.0]


def test_constant_with_warm_up() -> None:
    # Three warm-up steps: 1/4, 2/4, 3/4 of the value, then all of it.
    assert values(Schedule("constant", 2.0, warmup=3), [0, 1, 2, 3, 99]) == [0.5, 1.0, 1.5, 2.0, 2.0]


def test_linear() -> None:
    # From 4 to 1 in 6 steps: half a unit each.
    assert values(Schedule("linear", 4.0, 1.0, 6), [0, 1, 2, 5, 6, 7]) == [4.0, 3.5, 3.0, 1.5, 1.0, 1.0]


def test_linear_with_warm_up() -> None:
    # Warm-up of 1 step (half of 8), then from 8 to 0 over the 4 steps from 1 to 5.
    assert values(Schedule("linear", 8.0, 0.0, 5, 1), [0, 1, 2, 3, 4, 5, 6]) == [4.0, 8.0, 6.0, 4.0, 2.0, 0.0, 0.0]


def test_cosine() -> None:
    # From 3 to 1: 2 + cos(pi p) at p = 0, 1/4, 1/2, 3/4, 1.
    half = sqrt(0.5)
    expected = [3.0, 2 + half, 2.0, 2 - half, 1.0, 1.0]
    assert values(Schedule("cosine", 3.0, 1.0, 4), [0, 1, 2, 3, 4, 9]) == pytest.approx(expected, rel=1e-12)


def test_cosine_with_warm_up() -> None:
    # Warm-up 2 of 6: 1/3, 2/3, then p = 0, 1/4, 1/2 at steps 2, 3, 4.
    expected = [1 / 3, 2 / 3, 1.0, (1 + sqrt(0.5)) / 2, 0.5]
    assert values(Schedule("cosine", steps=6, warmup=2), [0, 1, 2, 3, 4]) == pytest.approx(expected, rel=1e-12)


def test_invalid_settings() -> None:
    with pytest.raises(ConfigError, match=r"unknown schedule 'step'.*constant, linear, cosine"):
        Schedule("step")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="schedule warmup = -1"):
        Schedule(warmup=-1)
    with pytest.raises(ConfigError, match=r"schedule 'linear': steps = 5 .*warmup \(5\)"):
        Schedule("linear", steps=5, warmup=5)
    with pytest.raises(ConfigError, match="schedule 'cosine': steps = "):
        Schedule("cosine")
