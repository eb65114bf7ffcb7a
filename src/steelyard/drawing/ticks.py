"""Positions and labels of the ticks on an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

NICE = (1.0, 2.0, 2.5, 5.0, 10.0)
LARGEST, SMALLEST = 1e100, 1e-30
"""Larger values are treated as non-finite, because their squares might overflow; smaller differences count as zero."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Settings of an axis. The axis always includes ``low`` and ``high`` if they are given."""

    title: str
    low: float | None = None
    high: float | None = None
    percent: bool = False
    integers: bool = False
    """Whether ticks are at integers only."""
    log: bool = False
    """Whether the axis is logarithmic, with base 2 or 10; all values must be positive."""
    tight: bool = False
    """Whether the axis ends at the smallest and largest value instead of at a tick."""


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis with its range, ticks and labels."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    log: bool = False

    def share(self, value: float) -> float:
        """Return the position of a value on the axis: 0 at its start, 1 at its end."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low)


def drawable(value: float) -> bool:
    return math.isfinite(value) and abs(value) < LARGEST


def scale(axis: Axis, values: Sequence[float], *, max_intervals: int = 5) -> Scale:
    """Choose a scale for finite values, with at most ``max_intervals`` + 1 ticks."""
    found = [*values, *(limit for limit in (axis.low, axis.high) if limit is not None)] or [0.0, 1.0]
    low, high = min(found), max(found)
    if axis.log:
        return _log_scale(axis, low, high, max_intervals)
    size = max(abs(low), abs(high))
    if high - low <= max(1e-9 * size, SMALLEST):
        room = 1.0 if axis.integers else size / 2 if size > SMALLEST else 0.5
        low, high = low if axis.low is not None else low - room, high + room
    step = _step((high - low) / max_intervals, integers=axis.integers)
    first = math.floor(low / step + 1e-9)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    ticks = tuple(step * place for place in range(first, last + 1))
    if axis.tight:
        ticks = tuple(tick for tick in ticks if low - 1e-9 * step <= tick <= high + 1e-9 * step)
        return Scale(low, high, ticks, _labels(ticks, step, percent=axis.percent))
    return Scale(ticks[0], ticks[-1], ticks, _labels(ticks, step, percent=axis.percent))


def _step(least: float, *, integers: bool) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    steps = [power * nice for nice in NICE if power * nice >= least * (1 - 1e-9)]
    if not integers:
        return steps[0]
    return next((step for step in steps if step >= 1 and step == int(step)), max(1.0, float(math.ceil(steps[0]))))


def _log_scale(axis: Axis, low: float, high: float, max_intervals: int) -> Scale:
    high = max(high, 2 * low)
    base = 2.0 if high / low <= 2.0 ** (2 * max_intervals) else 10.0
    first, last = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
    every = max(1, math.ceil((last - first) / max_intervals))
    ticks = tuple(base**power for power in range(first, last + 1, every))
    return Scale(base**first, base**last, ticks, tuple(_short(tick, percent=axis.percent) for tick in ticks), log=True)


def _labels(ticks: Sequence[float], step: float, *, percent: bool) -> tuple[str, ...]:
    """Format ticks with just enough decimals to tell neighbours apart."""
    if percent:
        return tuple(f"{number}%" for number in _labels([100 * tick for tick in ticks], 100 * step, percent=False))
    largest = max(map(abs, ticks), default=0.0)
    if largest >= 1e4 or step < 1e-4:
        return tuple(_short(0.0 if abs(tick) < step / 2 else tick) for tick in ticks)
    decimals = next(places for places in range(8) if abs(round(step, places) - step) < 1e-6 * step)
    return tuple(_unsigned_zero(f"{tick:.{decimals}f}") for tick in ticks)


def _short(value: float, *, percent: bool = False) -> str:
    """Format a number compactly: ``250``, ``12k``, ``1.5M``, ``2e-5``."""
    if percent:
        return f"{100 * value:.3g}%"
    size = abs(value)
    for unit, least in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if least <= size < 1000 * least and (least > 1e3 or size >= 1e4):
            return f"{value / least:.4g}{unit}"
    if size and not 1e-3 <= size < 1e12:
        mantissa, _, power = f"{value:.3e}".partition("e")
        return f"{float(mantissa):g}e{int(power)}"
    return f"{value:.4g}"


def _unsigned_zero(text: str) -> str:
    return text.removeprefix("-") if not float(text) else text
