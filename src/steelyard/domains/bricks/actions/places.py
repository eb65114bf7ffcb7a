"""Where the next brick can go: a mark for every way to lie at every place, kept up brick by brick."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steelyard.constraints.automaton import Memo
from steelyard.domains.bricks.structure import Brick, World
from steelyard.errors import ConstraintError

Marks = NDArray[np.uint8]
Bricks = tuple[Brick, ...]

BLOCKED, HELD = 1, 2
"""A brick would be outside or in another; it would stand on the ground, or on or under another. Open: held alone."""
MEMORY = 1 << 27
"""Bytes of marks that are remembered, at about 110 KB for 14 ways to lie in 20 x 20 x 20 cells."""
ALL = slice(None)


class Places:
    """The places that are open to the next brick, for any bricks that were placed in open places one after another.

    Open means: a part of the library, inside, in no other brick and, unless ``may_float``, on the ground or right
    above or below a brick. Every brick is held when it comes, so all of them reach the ground at all times.
    """

    def __init__(self, world: World, *, may_float: bool) -> None:
        self.world = world
        self._empty = empty_marks(world, may_float=may_float)
        self._known: Memo[Bricks, Marks] = Memo(max(MEMORY // self._empty.nbytes, 16))
        if not self.open(()).any():
            size = " x ".join(map(str, world.size))
            raise ConstraintError(f"no part of {world.library} fits into a world of {size} cells; enlarge the world")

    def open(self, bricks: Bricks, *where: int | slice) -> NDArray[np.bool_]:
        """Whether each way to lie can come next with its lowest corner at (x, y, z), ``[P, X, Y, Z]`` cut to
        ``where``; the ways are those of ``world.library.dimensions``.
        """
        return self._known.get(bricks, self._one_more)[where] == HELD

    def corners(self, bricks: Bricks, *where: slice) -> NDArray[np.bool_]:
        """Whether any brick at all can come with its lowest corner there, ``[X, Y, Z]`` cut to ``where``."""
        return np.asarray(self.open(bricks, ALL, *where).any(axis=0))

    def _one_more(self, bricks: Bricks) -> Marks:
        """From the marks before the last brick, which were asked for just now as a rule."""
        if not bricks:
            return self._empty
        marks = self._known.get(bricks[:-1], self._from_nothing).copy()
        mark(marks, self.world, bricks[-1])
        return marks

    def _from_nothing(self, bricks: Bricks) -> Marks:
        marks = self._empty.copy()
        for brick in bricks:
            mark(marks, self.world, brick)
        return marks


def empty_marks(world: World, *, may_float: bool) -> Marks:
    """The marks of an empty world, ``[P, X, Y, Z]``: blocked where a brick would stick out."""
    marks_PXYZ = np.zeros((len(world.library.dimensions), *world.size), np.uint8)
    x_size, y_size, _ = world.size
    for marks_XYZ, (h, w) in zip(marks_PXYZ, world.library.dimensions, strict=True):
        marks_XYZ[max(x_size - h + 1, 0) :] = BLOCKED
        marks_XYZ[:, max(y_size - w + 1, 0) :] = BLOCKED
    marks_PXYZ[..., slice(None) if may_float else 0] |= HELD
    return marks_PXYZ


def mark(marks_PXYZ: Marks, world: World, brick: Brick) -> None:
    """Write a brick into the marks: what overlaps its footprint is blocked in its layer and held in the next ones."""
    long, wide, x, y, z = brick
    for marks_XYZ, (h, w) in zip(marks_PXYZ, world.library.dimensions, strict=True):
        overlapping = marks_XYZ[max(x - h + 1, 0) : x + long, max(y - w + 1, 0) : y + wide]
        overlapping[:, :, z] |= BLOCKED
        overlapping[:, :, max(z - 1, 0) : z + 2] |= HELD
