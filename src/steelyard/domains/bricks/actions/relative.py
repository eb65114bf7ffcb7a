"""Coordinates relative to the first brick: ``z1 +4+0 2x4`` is a 2x4 brick in layer 1, 4 cells along x from the first
brick.

The first brick has absolute coordinates (``z0 8,8 2x4``). The same words therefore describe the same structure anywhere
in the world. The last words show how high and how far a structure has grown, so a policy does not need to count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from steelyard.domains.bricks.actions.base import BaseActionSpace, PositionMoves, WordAutomaton, WordState, open_indices
from steelyard.domains.bricks.actions.placements import ALL, PlacedBricks
from steelyard.domains.bricks.actions.words import NUMBER, SIGNED, part_words, read_words, word_ends
from steelyard.domains.bricks.structure import Brick, Structure
from steelyard.domains.bricks.text import Reading

FORM = "z0 8,8 2x4 or z1 +4+0 2x4"
FIRST = re.compile(rf"z{NUMBER} {NUMBER},{NUMBER} {NUMBER}x{NUMBER}", re.ASCII)
LATER = re.compile(rf"z{NUMBER} {SIGNED}{SIGNED} {NUMBER}x{NUMBER}", re.ASCII)
WORDS = 3


@dataclass(frozen=True)
class Relative(BaseActionSpace):
    """Three words per brick: layer, horizontal position relative to the first brick, and oriented part."""

    @property
    def tokens_per_brick(self) -> int:
        return WORDS

    def vocabulary(self) -> tuple[str, ...]:
        x_size, y_size, z_size = self.world.size
        layers = (f"z{z}" for z in range(z_size))
        places = (f"{x},{y}" for x, y in product(range(x_size), range(y_size)))
        offsets = (f"{x:+d}{y:+d}" for x, y in product(range(1 - x_size, x_size), range(1 - y_size, y_size)))
        return *layers, *places, *offsets, *part_words(self.world.library)

    def automaton(self) -> RelativeAutomaton:
        return RelativeAutomaton(self)

    def write(self, structure: Structure) -> str:
        return " ".join(_words(brick, structure.bricks[:index]) for index, brick in enumerate(structure.bricks))

    def read(self, text: str) -> Reading:
        """Read text leniently; the first brick is the first one that can be placed."""
        return read_words(text, _decode, self.world, FORM)

    def ends(self, text: str) -> tuple[int, ...]:
        return word_ends(text)


class RelativeAutomaton(WordAutomaton):
    """Allows a word if at least one brick that starts with it can be placed. ``prefix`` holds z, then x and y."""

    stretch = WORDS - 1

    def moves(self, state: WordState) -> Mapping[str, WordState]:
        bricks, prefix = state
        if len(bricks) == self.space.max_bricks:
            return {}
        if not prefix:
            return {f"z{z}": WordState(bricks, (z,)) for z in open_indices(self.placements.open(bricks), 3)}
        if len(prefix) == 1:
            return self._places(bricks, prefix[0])
        return dict(self._parts(bricks, prefix))

    def shortest_end(self, state: WordState) -> int:
        """Count the words needed to complete the current brick, which is always possible."""
        if self.may_end(state):
            return 0
        return {0: 3, 1: 2, 3: 1}[len(state.prefix)]

    def _places(self, bricks: PlacedBricks, z: int) -> PositionMoves:
        open_XY = self.placements.open(bricks, ALL, ALL, ALL, z).any(axis=0)
        if bricks:
            x_size, y_size, _ = self.space.world.size
            x, y = x_size - 1 - bricks[0].x, y_size - 1 - bricks[0].y
            words_XY = self._offset_words[x : x + x_size, y : y + y_size]
        else:
            words_XY = self._place_words
        corners = np.argwhere(open_XY).tolist()
        return PositionMoves(bricks, z, dict(zip(words_XY[open_XY].tolist(), corners, strict=True)))

    def _parts(self, bricks: PlacedBricks, prefix: tuple[int, ...]) -> Iterator[tuple[str, WordState]]:
        z, x, y = prefix
        dimensions = self.space.world.library.dimensions
        for orientation in open_indices(self.placements.open(bricks, ALL, x, y, z), 0):
            h, w = dimensions[orientation]
            yield f"{h}x{w}", WordState((*bricks, Brick(h, w, x, y, z)))

    @cached_property
    def _place_words(self) -> NDArray[np.object_]:
        """Words for the position of the first brick, ``[X, Y]``."""
        x_size, y_size, _ = self.space.world.size
        return np.array([[f"{x},{y}" for y in range(y_size)] for x in range(x_size)], np.object_)

    @cached_property
    def _offset_words(self) -> NDArray[np.object_]:
        """Words for the positions of later bricks, in ascending order of offset."""
        x_size, y_size, _ = self.space.world.size
        along_x, along_y = range(1 - x_size, x_size), range(1 - y_size, y_size)
        return np.array([[f"{x:+d}{y:+d}" for y in along_y] for x in along_x], np.object_)


def _words(brick: Brick, before: Sequence[Brick]) -> str:
    h, w, x, y, z = brick
    position = f"{x - before[0].x:+d}{y - before[0].y:+d}" if before else f"{x},{y}"
    return f"z{z} {position} {h}x{w}"


def _decode(words: str, placed: Sequence[Brick]) -> Brick | None:
    if not (match := (LATER if placed else FIRST).fullmatch(words)):
        return None
    z, x, y, h, w = map(int, match.groups())
    first_x, first_y = (placed[0].x, placed[0].y) if placed else (0, 0)
    return Brick(h, w, first_x + x, first_y + y, z)
