"""Areas cut into parts: strips 2 or 1 wide, each cut into the lengths that the library has."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from steelyard.domains.bricks.parts import STANDARD, Library


class Piece(NamedTuple):
    """A part that lies ``h`` along x and ``w`` along y, with its lowest corner at (x, y) of the area."""

    h: int
    w: int
    x: int
    y: int


def lengths(library: Library, width: int) -> list[int]:
    """How long the parts of that width are, the longest first."""
    return sorted({h for h, w in library.dimensions if w == width}, reverse=True)


def cut(length: int, choices: list[int], rng: np.random.Generator | None = None) -> list[int]:
    """Lengths that add up: each the longest that fits, or drawn from those that fit in proportion to their cube."""
    pieces: list[int] = []
    left = length
    while left:
        fitting = [choice for choice in choices if choice <= left]
        if not fitting:
            raise ValueError(f"a length of {length} cannot be made of {choices}: {left} are left")
        piece = fitting[0] if rng is None else _drawn(fitting, rng)
        pieces.append(piece)
        left -= piece
    return pieces


def tile(
    length: int,
    width: int,
    library: Library = STANDARD,
    *,
    across: bool = False,
    rng: np.random.Generator | None = None,
) -> list[Piece]:
    """Pieces that fill ``length`` along x by ``width`` along y, their strips along x or (``across``) along y."""
    if across:
        return [Piece(w, h, y, x) for h, w, x, y in tile(width, length, library, rng=rng)]
    pieces: list[Piece] = []
    for strip, y in strips(width):
        x = 0
        for piece in cut(length, lengths(library, strip), rng):
            pieces.append(Piece(piece, strip, x, y))
            x += piece
    return pieces


def strips(width: int) -> list[tuple[int, int]]:
    """(width, place) of strips 2 wide, the last one 1 wide where the width is odd."""
    return [(min(2, width - place), place) for place in range(0, width, 2)]


def rows(length: int, width: int, library: Library = STANDARD, *, narrow: bool = False) -> list[Piece]:
    """Pieces side by side that all go the whole length: 2 wide where there is such a part, or (``narrow``) all 1."""
    pieces: list[Piece] = []
    place = 0
    while place < width:
        wide = not narrow and place + 2 <= width and (length, 2) in library
        strip = 2 if wide else 1
        if (length, strip) not in library:
            raise ValueError(f"no part of the library is {length} long and {strip} wide: it has {library}")
        pieces.append(Piece(length, strip, 0, place))
        place += strip
    return pieces


@cache
def fewest(length: int, width: int) -> int:
    """About how many standard parts fill an area: the better of the two directions."""
    return min(len(tile(length, width)), len(tile(length, width, across=True)))


def _drawn(fitting: list[int], rng: np.random.Generator) -> int:
    weight = np.array(fitting, np.float64) ** 3
    return fitting[int(np.searchsorted(np.cumsum(weight), rng.random() * weight.sum(), side="right"))]
