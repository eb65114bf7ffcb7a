"""The automaton of pivots and offsets. What was said of a brick is kept as its pivot and its own coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from steelyard.constraints.automaton import Memo
from steelyard.domains.bricks.actions.base import ActionSpace, Corners, Saying, WordAutomaton, along
from steelyard.domains.bricks.actions.places import ALL, Bricks
from steelyard.domains.bricks.structure import Brick

GROUND = "ground"
ON_GROUND = -1
"""The ground in place of a pivot's number."""
Window = tuple[slice, slice, slice]


@dataclass(frozen=True)
class Wording:
    """How places on the ground and offsets are said: one word an axis, or one for all (``joint``)."""

    joint: bool

    def ground(self, x: int, y: int) -> str:
        return f"{x},{y}" if self.joint else f"x{x} y{y}"

    def offset(self, x: int, y: int, z: int) -> str:
        return f"{x:+d}{y:+d}{z:+d}" if self.joint else f"x{x:+d} y{y:+d} z{z:+d}"


class TwoStepAutomaton(WordAutomaton):
    """A word may come if at least one brick that begins with it can be placed.

    ``said`` is empty, or the pivot's number and as much of x, y, z as is known; on the ground z is, once y is.
    """

    def __init__(self, space: ActionSpace, wording: Wording, reach: tuple[int, int, int]) -> None:
        super().__init__(space)
        self.wording, self.joint, self.reach = wording, wording.joint, reach
        self._windows: Memo[Brick, Window] = Memo(20_000)
        self.stretch = space.tokens_per_brick - 1

    def moves(self, state: Saying) -> Mapping[str, Saying]:
        bricks, said = state
        if not said:
            return {} if len(bricks) == self.space.most else dict(self._pivots(bricks))
        if len(said) == 4:
            return dict(self._parts(bricks, said[1:]))
        return self._whole_places(bricks, said[0]) if self.joint else dict(self._axis(bricks, said))

    def shortest_end(self, state: Saying) -> int:
        """Every brick that was begun can be finished; the first one is begun from the ground."""
        if self.may_end(state):
            return 0
        if not state.said:
            return 3 if self.joint else 4
        if self.joint:
            return 2 if len(state.said) == 1 else 1
        z_is_free = state.said[0] == ON_GROUND and len(state.said) < 4
        return 5 - len(state.said) - z_is_free

    def _pivots(self, bricks: Bricks) -> Iterator[tuple[str, Saying]]:
        open_XYZ = self.places.corners(bricks)
        if open_XYZ[:, :, 0].any():
            yield GROUND, Saying(bricks, (ON_GROUND,))
        for back in range(1, len(bricks) + 1):
            number = len(bricks) - back
            if open_XYZ[self._window(bricks, number)].any():
                yield f"back{back}", Saying(bricks, (number,))

    def _axis(self, bricks: Bricks, said: tuple[int, ...]) -> Iterator[tuple[str, Saying]]:
        """x, then y, then z."""
        pivot, known = said[0], said[1:]
        axis, window = len(known), self._window(bricks, pivot)
        first = window[axis].start
        for step in along(self.places.open(bricks, ALL, *known, *window[axis:]), 1):
            number = first + step
            if pivot == ON_GROUND:
                layer = (0,) * axis  # y is the last to be said
                yield f"{'xy'[axis]}{number}", Saying(bricks, (*said, number, *layer))
            else:
                word = f"{'xyz'[axis]}{number - bricks[pivot][2 + axis]:+d}"
                yield word, Saying(bricks, (*said, number))

    def _whole_places(self, bricks: Bricks, pivot: int) -> Corners:
        window = self._window(bricks, pivot)
        open_XYZ = self.places.corners(bricks, *window)
        if pivot == ON_GROUND:
            words_XYZ = self._ground_words
        else:
            firsts = [at - reach for at, reach in zip(bricks[pivot][2:], self.reach, strict=True)]
            x, y, z = (slice(side.start - at, side.stop - at) for side, at in zip(window, firsts, strict=True))
            words_XYZ = self._offset_words[x, y, z]
        corners = (np.argwhere(open_XYZ) + [side.start for side in window]).tolist()
        return Corners(bricks, pivot, dict(zip(words_XYZ[open_XYZ].tolist(), corners, strict=True)))

    @cached_property
    def _ground_words(self) -> NDArray[np.object_]:
        """What says each place on the ground, ``[X, Y, 1]``."""
        x_size, y_size, _ = self.space.world.size
        words = [[[self.wording.ground(x, y)] for y in range(y_size)] for x in range(x_size)]
        return np.array(words, np.object_)

    @cached_property
    def _offset_words(self) -> NDArray[np.object_]:
        """What says each offset, the smallest along all axes first."""
        along_x, along_y, along_z = (range(-reach, reach + 1) for reach in self.reach)
        words = [[[self.wording.offset(x, y, z) for z in along_z] for y in along_y] for x in along_x]
        return np.array(words, np.object_)

    def _parts(self, bricks: Bricks, corner: tuple[int, ...]) -> Iterator[tuple[str, Saying]]:
        dimensions = self.space.world.library.dimensions
        for way in along(self.places.open(bricks, ALL, *corner), 0):
            h, w = dimensions[way]
            yield f"{h}x{w}", Saying((*bricks, Brick(h, w, *corner)))

    def _window(self, bricks: Bricks, pivot: int) -> Window:
        """The cells within reach of the pivot."""
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
