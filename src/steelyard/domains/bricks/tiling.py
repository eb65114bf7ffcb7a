"""Tile rectangles with parts: strips of width 2 or 1, divided into part lengths from the library."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from steelyard.domains.bricks.parts import STANDARD, Library


class Tile(NamedTuple):
    """A part that extends ``h`` along x and ``w`` along y, with its lowest corner at (x, y) of the rectangle."""

    h: int
    w: int
    x: int
    y: int


def lengths(library: Library, width: int) -> list[int]:
    """Return the lengths of the parts of the given width, longest first."""
    return sorted({h for h, w in library.dimensions if w == width}, reverse=True)


def split_length(length: int, choices: list[int], rng: np.random.Generator | None = None) -> list[int]:
    """Split a length into part lengths: either always the longest that fits, or drawn with probability ∝ length³."""
    lengths_used: list[int] = []
    remaining = length
    while remaining:
        fitting = [choice for choice in choices if choice <= remaining]
        if not fitting:
            raise ValueError(f"a length of {length} cannot be split into {choices}: {remaining} remain")
        chosen = fitting[0] if rng is None else _drawn(fitting, rng)
        lengths_used.append(chosen)
        remaining -= chosen
    return lengths_used


def tile(
    length: int,
    width: int,
    library: Library = STANDARD,
    *,
    across: bool = False,
    rng: np.random.Generator | None = None,
) -> list[Tile]:
    """Fill ``length`` along x by ``width`` along y with tiles, in strips along x or (``across``) along y."""
    if across:
        return [Tile(w, h, y, x) for h, w, x, y in tile(width, length, library, rng=rng)]
    tiles: list[Tile] = []
    for strip, y in strips(width):
        x = 0
        for part_length in split_length(length, lengths(library, strip), rng):
            tiles.append(Tile(part_length, strip, x, y))
            x += part_length
    return tiles


def strips(width: int) -> list[tuple[int, int]]:
    """Return the (width, offset) of each strip; strips have width 2, and the last has width 1 if the total is odd."""
    return [(min(2, width - offset), offset) for offset in range(0, width, 2)]


def rows(length: int, width: int, library: Library = STANDARD, *, narrow: bool = False) -> list[Tile]:
    """Fill a rectangle with full-length tiles side by side, of width 2 where possible or (``narrow``) of width 1."""
    tiles: list[Tile] = []
    offset = 0
    while offset < width:
        wide = not narrow and offset + 2 <= width and (length, 2) in library
        strip = 2 if wide else 1
        if (length, strip) not in library:
            raise ValueError(f"the library has no part of length {length} and width {strip}: {library}")
        tiles.append(Tile(length, strip, 0, offset))
        offset += strip
    return tiles


@cache
def estimated_parts(length: int, width: int) -> int:
    """Estimate the minimum number of standard parts that fill a rectangle, using the better of the two directions."""
    return min(len(tile(length, width)), len(tile(length, width, across=True)))


def _drawn(fitting: list[int], rng: np.random.Generator) -> int:
    weight = np.array(fitting, np.float64) ** 3
    return fitting[int(np.searchsorted(np.cumsum(weight), rng.random() * weight.sum(), side="right"))]
