"""Automaton for the two-step action space. The state holds the pivot and the coordinates of the next brick."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from steelyard.constraints.automaton import LruCache
from steelyard.domains.bricks.actions.base import ActionSpace, PositionMoves, WordAutomaton, WordState, open_indices
from steelyard.domains.bricks.actions.placements import ALL, PlacedBricks
from steelyard.domains.bricks.structure import Brick

GROUND = "ground"
ON_GROUND = -1
"""Pivot index of the ground."""
Window = tuple[slice, slice, slice]


@dataclass(frozen=True)
class PlaceNotation:
    """How positions on the ground and offsets are written: one word per axis, or a single word if ``joint``."""

    joint: bool

    def ground(self, x: int, y: int) -> str:
        return f"{x},{y}" if self.joint else f"x{x} y{y}"

    def offset(self, x: int, y: int, z: int) -> str:
        return f"{x:+d}{y:+d}{z:+d}" if self.joint else f"x{x:+d} y{y:+d} z{z:+d}"


class TwoStepAutomaton(WordAutomaton):
    """Allows a word if at least one brick that starts with it can be placed.

    ``prefix`` is empty, or the index of the pivot followed by x, y and z as far as they are known. On the ground, z is
    known as soon as y is.
    """

    def __init__(self, space: ActionSpace, notation: PlaceNotation, reach: tuple[int, int, int]) -> None:
        super().__init__(space)
        self.notation, self.joint, self.reach = notation, notation.joint, reach
        self._windows: LruCache[Brick, Window] = LruCache(20_000)
        self.stretch = space.tokens_per_brick - 1

    def moves(self, state: WordState) -> Mapping[str, WordState]:
        bricks, prefix = state
        if not prefix:
            return {} if len(bricks) == self.space.max_bricks else dict(self._pivots(bricks))
        if len(prefix) == 4:
            return dict(self._parts(bricks, prefix[1:]))
        return self._joint_places(bricks, prefix[0]) if self.joint else dict(self._axis(bricks, prefix))

    def shortest_end(self, state: WordState) -> int:
        """Count the words needed to complete the current brick; the first brick starts from the ground."""
        if self.may_end(state):
            return 0
        if not state.prefix:
            return 3 if self.joint else 4
        if self.joint:
            return 2 if len(state.prefix) == 1 else 1
        z_is_free = state.prefix[0] == ON_GROUND and len(state.prefix) < 4
        return 5 - len(state.prefix) - z_is_free

    def _pivots(self, bricks: PlacedBricks) -> Iterator[tuple[str, WordState]]:
        open_XYZ = self.placements.corners(bricks)
        if open_XYZ[:, :, 0].any():
            yield GROUND, WordState(bricks, (ON_GROUND,))
        for back in range(1, len(bricks) + 1):
            number = len(bricks) - back
            if open_XYZ[self._window(bricks, number)].any():
                yield f"back{back}", WordState(bricks, (number,))

    def _axis(self, bricks: PlacedBricks, prefix: tuple[int, ...]) -> Iterator[tuple[str, WordState]]:
        """Yield the words of the next axis, in the order x, y, z."""
        pivot, known = prefix[0], prefix[1:]
        axis, window = len(known), self._window(bricks, pivot)
        first = window[axis].start
        for step in open_indices(self.placements.open(bricks, ALL, *known, *window[axis:]), 1):
            number = first + step
            if pivot == ON_GROUND:
                layer = (0,) * axis  # after y, z is known
                yield f"{'xy'[axis]}{number}", WordState(bricks, (*prefix, number, *layer))
            else:
                word = f"{'xyz'[axis]}{number - bricks[pivot][2 + axis]:+d}"
                yield word, WordState(bricks, (*prefix, number))

    def _joint_places(self, bricks: PlacedBricks, pivot: int) -> PositionMoves:
        window = self._window(bricks, pivot)
        open_XYZ = self.placements.corners(bricks, *window)
        if pivot == ON_GROUND:
            words_XYZ = self._ground_words
        else:
            firsts = [at - reach for at, reach in zip(bricks[pivot][2:], self.reach, strict=True)]
            x, y, z = (slice(side.start - at, side.stop - at) for side, at in zip(window, firsts, strict=True))
            words_XYZ = self._offset_words[x, y, z]
        corners = (np.argwhere(open_XYZ) + [side.start for side in window]).tolist()
        return PositionMoves(bricks, pivot, dict(zip(words_XYZ[open_XYZ].tolist(), corners, strict=True)))

    @cached_property
    def _ground_words(self) -> NDArray[np.object_]:
        """Words for positions on the ground, ``[X, Y, 1]``."""
        x_size, y_size, _ = self.space.world.size
        words = [[[self.notation.ground(x, y)] for y in range(y_size)] for x in range(x_size)]
        return np.array(words, np.object_)

    @cached_property
    def _offset_words(self) -> NDArray[np.object_]:
        """Words for offsets, in ascending order along all axes."""
        along_x, along_y, along_z = (range(-reach, reach + 1) for reach in self.reach)
        words = [[[self.notation.offset(x, y, z) for z in along_z] for y in along_y] for x in along_x]
        return np.array(words, np.object_)

    def _parts(self, bricks: PlacedBricks, corner: tuple[int, ...]) -> Iterator[tuple[str, WordState]]:
        dimensions = self.space.world.library.dimensions
        for orientation in open_indices(self.placements.open(bricks, ALL, *corner), 0):
            h, w = dimensions[orientation]
            yield f"{h}x{w}", WordState((*bricks, Brick(h, w, *corner)))

    def _window(self, bricks: PlacedBricks, pivot: int) -> Window:
        """Return the cells within reach of the pivot."""
        if pivot == ON_GROUND:
            x_size, y_size, _ = self.space.world.size
            return slice(0, x_size), slice(0, y_size), slice(0, 1)
        return self._windows.get(bricks[pivot], self._around)

    def _around(self, brick: Brick) -> Window:
        x, y, z = (
            slice(max(centre - reach, 0), min(centre + reach + 1, size))
            for centre, reach, size in zip(brick[2:], self.reach, self.space.world.size, strict=True)
        )
        return x, y, z
