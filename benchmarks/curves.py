"""Curves of a result as an SVG picture, drawn with nothing but text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate

from benchmarks.result import Cell, shortest

WIDTH, HEIGHT, MARGIN, GAP = 260, 170, 44, 24
COLOURS = ("#1b6ca8", "#d1495b", "#2a9d4a", "#7a5195", "#c77d0a", "#3d3d3d", "#00a2a2")


def panels(rows: Sequence[Mapping[str, Cell]], by: str, x: str, ys: Sequence[str]) -> str:
    """One panel for each column ``y`` over ``x``, a line for each value of the column ``by``; what is not a number is
    left out.
    """
    names = list(dict.fromkeys(str(row[by]) for row in rows))
    parts = [_panel(rows, by, x, y, names, index * (WIDTH + MARGIN + GAP)) for index, y in enumerate(ys)]
    starts = accumulate((30 + 7 * len(name) for name in names), initial=MARGIN)
    legend = "".join(
        f'<text x="{start}" y="{HEIGHT + 78}" fill="{colour}">— {name}</text>'
        for start, colour, name in zip(starts, COLOURS, names, strict=False)
    )
    width = len(ys) * (WIDTH + MARGIN + GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT + 92}" width="{width}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(parts)
        + f"\n{legend}\n</svg>\n"
    )


def _panel(rows: Sequence[Mapping[str, Cell]], by: str, x: str, y: str, names: Sequence[str], left: int) -> str:
    xs = [float(row[x]) for row in rows]
    rows = [row for row in rows if math.isfinite(float(row[y]))]
    values = [float(row[y]) for row in rows]
    low, high = min(values), max(values)
    start, end = min(xs), max(xs)

    def place(row: Mapping[str, Cell]) -> str:
        across = MARGIN + (float(row[x]) - start) / max(end - start, 1e-9) * WIDTH
        up = 30 + (1 - (float(row[y]) - low) / max(high - low, 1e-9)) * HEIGHT
        return f"{across:.1f},{up:.1f}"

    lines = [
        f'<polyline fill="none" stroke="{COLOURS[i]}" stroke-width="2" '
        f'points="{" ".join(place(row) for row in rows if str(row[by]) == name)}"/>'
        for i, name in enumerate(names)
    ]
    axes = (
        f'<path d="M{MARGIN} 30V{30 + HEIGHT}H{MARGIN + WIDTH}" fill="none" stroke="#888"/>'
        f'<text x="{MARGIN}" y="20" font-weight="bold">{y}</text>'
        f'<text x="{MARGIN - 6}" y="38" text-anchor="end">{shortest(high)}</text>'
        f'<text x="{MARGIN - 6}" y="{30 + HEIGHT}" text-anchor="end">{shortest(low)}</text>'
        f'<text x="{MARGIN}" y="{HEIGHT + 48}">{x} {shortest(start)}</text>'
        f'<text x="{MARGIN + WIDTH}" y="{HEIGHT + 48}" text-anchor="end">{shortest(end)}</text>'
    )
    return f'<g transform="translate({left},0)">{axes}{"".join(lines)}</g>'
