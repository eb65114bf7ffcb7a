"""Bricks in a world.

A structure built by :func:`place` or read from text has no collisions, no bricks outside the world and no unknown
parts. The bricks of a structure may float.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard.domains.bricks.flaws import Flaw, InvalidStructureError, Reason
from steelyard.domains.bricks.parts import STANDARD, Library

MAX_CELLS = 1 << 24
"""Limit on the size of a world, because occupancy is a dense array."""


class Brick(NamedTuple):
    """A part that extends ``h`` along x and ``w`` along y, with its lowest corner at (x, y) in layer z."""

    h: int
    w: int
    x: int
    y: int
    z: int

    def __str__(self) -> str:
        return f"{self.h}x{self.w} ({self.x},{self.y},{self.z})"


@dataclass(frozen=True)
class World:
    """The size of the build volume in cells and the available parts. The ground is below layer 0."""

    size: tuple[int, int, int] = (20, 20, 20)
    library: Library = STANDARD

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", tuple(self.size))
        x, y, z = self.size
        if min(self.size) < 1 or x * y * z > MAX_CELLS:
            raise ValueError(
                f"world of {x} x {y} x {z} cells: each side must be at least 1 and the volume at most {MAX_CELLS}"
            )

    def contains(self, brick: Brick) -> bool:
        """Whether the brick lies entirely inside the world."""
        h, w, x, y, z = brick
        x_size, y_size, z_size = self.size
        return x >= 0 and y >= 0 and 0 <= z < z_size and x + h <= x_size and y + w <= y_size


@dataclass(frozen=True)
class Structure:
    """Bricks in the order they were placed. The constructor does not validate; use :func:`place` for that."""

    bricks: tuple[Brick, ...]
    world: World = World()

    def __len__(self) -> int:
        return len(self.bricks)

    @cached_property
    def array_B5(self) -> NDArray[np.int32]:
        """Bricks as rows ``h, w, x, y, z``."""
        return np.array(self.bricks, np.int32).reshape(-1, 5)

    @cached_property
    def mass_B(self) -> NDArray[np.float64]:
        """Mass of each brick in kilograms."""
        parts = self.world.library.by_dimensions
        return np.array([parts[brick[:2]].mass for brick in self.bricks], np.float64)

    def occupancy(self) -> NDArray[np.int32]:
        """Return the index of the brick in each cell [x, y, z], or -1 for an empty cell."""
        grid = np.full(self.world.size, -1, np.int32)
        for number, (h, w, x, y, z) in enumerate(self.bricks):
            grid[x : x + h, y : y + w, z] = number
        return grid


class Site:
    """A world that is filled brick by brick."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.bricks: list[Brick] = []
        self._occupied = np.zeros(world.size, np.bool_)

    def problem(self, brick: Brick) -> tuple[Reason, str] | None:
        """Return the reason why the brick cannot be placed now, or ``None`` if it can be placed."""
        if brick[:2] not in self.world.library:
            return Reason.NOT_IN_LIBRARY, f"{brick}: the library has {self.world.library}"
        if not self.world.contains(brick):
            return Reason.OUT_OF_BOUNDS, f"{brick}: the world is {' x '.join(map(str, self.world.size))}"
        if self._occupied[self._cells(brick)].any():
            return Reason.COLLISION, f"{brick} overlaps another brick"
        return None

    def add(self, brick: Brick) -> None:
        self._occupied[self._cells(brick)] = True
        self.bricks.append(brick)

    def structure(self) -> Structure:
        return Structure(tuple(self.bricks), self.world)

    @staticmethod
    def _cells(brick: Brick) -> tuple[slice, slice, int]:
        h, w, x, y, z = brick
        return slice(x, x + h), slice(y, y + w), z


def place(bricks: Iterable[Brick], world: World) -> Structure:
    """Place the bricks in order; raise :class:`InvalidStructureError` for the first one that cannot be placed."""
    site = Site(world)
    for line, brick in enumerate(bricks, 1):
        if problem := site.problem(brick):
            raise InvalidStructureError(Flaw(problem[0], line, problem[1]))
        site.add(brick)
    return site.structure()
