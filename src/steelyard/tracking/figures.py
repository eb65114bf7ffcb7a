"""Formats numbers for the console: sparklines, trends, bars, durations and short numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"
RISING, FALLING, LEVEL = "↗", "↘", "→"


def sparkline(values: Sequence[float], width: int) -> str:
    """Draw the last ``width`` values, one character each, scaled between their minimum and maximum."""
    recent = _tamed(list(values)[-width:])
    finite = [value for value in recent if math.isfinite(value)]
    if not finite:
        return " " * len(recent)
    low, span = min(finite), max(finite) - min(finite)
    return "".join(_block(value, low, span) for value in recent)


def _tamed(values: Sequence[float]) -> Sequence[float]:
    """Scale values down by a power of two if any exceeds 1e100, so that differences and squares stay finite."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return [value * 2.0**-600 for value in values] if largest > 1e100 else values


def _block(value: float, low: float, span: float) -> str:
    if not math.isfinite(value):
        return " "
    if span <= 0:
        return _BLOCKS[3]
    return _BLOCKS[min(7, int(8 * (value - low) / span))]


def trend(values: Sequence[float], *, window: int = 40) -> str:
    """Return an arrow for the slope over the last ``window`` values; level unless the slope is significant.

    The slope b of the least-squares line is significant if |b| > 2 s_b, with the standard error
    s_b = sqrt(sum of squared residuals / (n - 2) / sum (x - mean x)^2).
    """
    ys = _tamed([value for value in list(values)[-window:] if math.isfinite(value)])
    n = len(ys)
    if n < 4:
        return ""
    x_mean, y_mean = (n - 1) / 2, sum(ys) / n
    spread = sum((x - x_mean) ** 2 for x in range(n))
    slope = sum((x - x_mean) * (y - y_mean) for x, y in enumerate(ys)) / spread
    residual = sum((y - y_mean - slope * (x - x_mean)) ** 2 for x, y in enumerate(ys))
    error = math.sqrt(residual / (n - 2) / spread)
    if abs(slope) <= max(2 * error, 1e-12):
        return LEVEL
    return RISING if slope > 0 else FALLING


def shares(parts: Sequence[float], width: int) -> list[int]:
    """Divide a bar of ``width`` cells among parts; the largest remainders get the leftover cells."""
    total = sum(parts)
    if total <= 0 or width <= 0:
        return [0] * len(parts)
    exact = [part / total * width for part in parts]
    cells = [int(value) for value in exact]
    by_remainder = sorted(range(len(parts)), key=lambda i: cells[i] - exact[i])
    for i in by_remainder[: width - sum(cells)]:
        cells[i] += 1
    return cells


def duration(seconds: float) -> str:
    """Format seconds as ``0:42``, ``12:05``, ``3:07:11`` or ``2d 04:10``."""
    total = max(0, round(seconds))
    days, rest = divmod(total, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    if days:
        return f"{days}d {hours:02d}:{minutes:02d}"
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def number(value: float) -> str:
    """Format a number with up to three decimals, or with an exponent if it is very small or large."""
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-2 <= abs(value) < 1e4:
        return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"
    return f"{value:.2e}"


def percent(value: float) -> str:
    return f"{100 * value:.1f}%" if math.isfinite(value) else str(value)


def count(value: float) -> str:
    """Format a count or a rate: ``812``, ``12.3k``, ``4.5M``."""
    if not math.isfinite(value):
        return str(value)
    for unit, size in (("M", 1e6), ("k", 1e4)):
        if abs(value) >= size:
            return f"{value / (1e6 if unit == 'M' else 1e3):.1f}{unit}"
    return f"{value:.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.1f}"
