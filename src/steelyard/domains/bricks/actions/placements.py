"""Possible placements of the next brick: flags for every orientation at every position, updated brick by brick."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steelyard.constraints.automaton import LruCache
from steelyard.domains.bricks.structure import Brick, World
from steelyard.errors import ConstraintError

Marks = NDArray[np.uint8]
PlacedBricks = tuple[Brick, ...]

BLOCKED, SUPPORTED = 1, 2
"""Flags of a placement: whether it overlaps a brick or the boundary, and whether it touches the ground or a brick above
or below. A placement is open if only the second flag is set.
"""
CACHE_BYTES = 1 << 27
"""Size of the cache in bytes. The flags of one structure take about 110 KB (14 orientations, 20 x 20 x 20 cells)."""
ALL = slice(None)


class Placements:
    """The open placements for the next brick, given bricks that were themselves placed at open placements.

    An open placement is inside the world, overlaps no brick and, unless ``may_float``, touches the ground or a brick
    directly above or below. Every brick is supported when it is placed, so all bricks stay connected to the ground.
    """

    def __init__(self, world: World, *, may_float: bool) -> None:
        self.world = world
        self._empty = empty_marks(world, may_float=may_float)
        self._known: LruCache[PlacedBricks, Marks] = LruCache(max(CACHE_BYTES // self._empty.nbytes, 16))
        if not self.open(()).any():
            size = " x ".join(map(str, world.size))
            raise ConstraintError(f"no part of {world.library} fits into a world of {size} cells; enlarge the world")

    def open(self, bricks: PlacedBricks, *where: int | slice) -> NDArray[np.bool_]:
        """Return a boolean mask ``[P, X, Y, Z]``, indexed by ``where``: whether each orientation can be placed with its
        lowest corner at (x, y, z). Orientations are numbered as in ``world.library.dimensions``.
        """
        return self._known.get(bricks, self._extended)[where] == SUPPORTED

    def corners(self, bricks: PlacedBricks, *where: slice) -> NDArray[np.bool_]:
        """Return a boolean mask ``[X, Y, Z]``: for each position in ``where``, whether any brick can be placed with its
        lowest corner there.
        """
        return np.asarray(self.open(bricks, ALL, *where).any(axis=0))

    def _extended(self, bricks: PlacedBricks) -> Marks:
        """Add the last brick to the flags of the earlier bricks, which are usually cached."""
        if not bricks:
            return self._empty
        marks = self._known.get(bricks[:-1], self._rebuilt).copy()
        mark(marks, self.world, bricks[-1])
        return marks

    def _rebuilt(self, bricks: PlacedBricks) -> Marks:
        marks = self._empty.copy()
        for brick in bricks:
            mark(marks, self.world, brick)
        return marks


def empty_marks(world: World, *, may_float: bool) -> Marks:
    """Return the flags of an empty world, ``[P, X, Y, Z]``: blocked where a brick would extend beyond the boundary."""
    marks_PXYZ = np.zeros((len(world.library.dimensions), *world.size), np.uint8)
    x_size, y_size, _ = world.size
    for marks_XYZ, (h, w) in zip(marks_PXYZ, world.library.dimensions, strict=True):
        marks_XYZ[max(x_size - h + 1, 0) :] = BLOCKED
        marks_XYZ[:, max(y_size - w + 1, 0) :] = BLOCKED
    marks_PXYZ[..., slice(None) if may_float else 0] |= SUPPORTED
    return marks_PXYZ


def mark(marks_PXYZ: Marks, world: World, brick: Brick) -> None:
    """Add a brick to the flags: placements that overlap its footprint are blocked in its layer and supported in the
    layers above and below.
    """
    long, wide, x, y, z = brick
    for marks_XYZ, (h, w) in zip(marks_PXYZ, world.library.dimensions, strict=True):
        overlapping = marks_XYZ[max(x - h + 1, 0) : x + long, max(y - w + 1, 0) : y + wide]
        overlapping[:, :, z] |= BLOCKED
        overlapping[:, :, max(z - 1, 0) : z + 2] |= SUPPORTED
