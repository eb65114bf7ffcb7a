"""The text format, one ``2x4 (8,8,0)`` per line, for language models.

The automaton runs over characters and tracks the world. The token trie (``steelyard.constraints.trie``) extends the
automaton to any tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard.constraints.automaton import Automaton, LruCache
from steelyard.domains.bricks import text as texts
from steelyard.domains.bricks.actions.base import BaseActionSpace, open_indices
from steelyard.domains.bricks.actions.placements import PlacedBricks, Placements
from steelyard.domains.bricks.structure import Brick, Structure, World
from steelyard.types import Task

SUFFIXES = ("x", " (", ",", ",", ")\n")
"""Text that follows each of the five numbers in a line."""
CACHE_SIZE = 20_000


@dataclass(frozen=True)
class Lines(BaseActionSpace):
    """One line per brick, numbers without leading zeros, and a newline after every line, including the last."""

    @property
    def tokens_per_brick(self) -> int:
        return int(line_lengths(self.world).max())

    def vocabulary(self) -> None:
        """Return ``None``: any tokenizer with a token for each character in use works."""

    def automaton(self) -> LinesAutomaton:
        return LinesAutomaton(self)

    def write(self, structure: Structure) -> str:
        return texts.write(structure)

    def read(self, text: str) -> texts.Reading:
        return texts.read(text, self.world)

    def ends(self, text: str) -> tuple[int, ...]:
        return tuple(accumulate((len(line) + 1 for line in text.split("\n")), initial=-1))[1:]


class LineState(NamedTuple):
    """State of the automaton: the placed bricks, the complete numbers of the current line, the digits of the number
    being written, and the text that must follow the last number.
    """

    bricks: PlacedBricks
    numbers: tuple[int, ...] = ()
    digits: str = ""
    pending: str = ""


class LinesAutomaton(Automaton[LineState]):
    """Allows a character if at least one brick whose line continues with it can be placed."""

    def __init__(self, space: Lines) -> None:
        self.space = space
        self.placements = Placements(space.world, may_float=space.may_float)
        self.stretch = space.tokens_per_brick
        self._length_PXYZ = line_lengths(space.world)
        self._numbers: LruCache[tuple[PlacedBricks, tuple[int, ...]], dict[int, int]] = LruCache(CACHE_SIZE)
        self._orientations: LruCache[PlacedBricks, dict[int, int]] = LruCache(CACHE_SIZE)

    def alphabet(self) -> list[str]:
        world = self.space.world
        sides = [side for orientation in world.library.dimensions for side in orientation]
        numbers = [*sides, *range(max(world.size))]
        return sorted(set("".join(SUFFIXES)).union(*map(str, numbers)))

    def start(self, task: Task) -> LineState:
        return LineState(())

    def moves(self, state: LineState) -> Mapping[str, LineState]:
        bricks, numbers, digits, pending = state
        if pending:
            return {pending[0]: LineState(bricks, numbers, "", pending[1:])}
        following: dict[str, LineState] = {}
        for number in self._shortest_lines(state):
            written = str(number)
            if written == digits:
                suffix = SUFFIXES[len(numbers)]
                following[suffix[0]] = _with_number(state, number, suffix[1:])
            else:
                longer = written[: len(digits) + 1]
                following[longer[-1]] = LineState(bricks, numbers, longer)
        return following

    def may_end(self, state: LineState) -> bool:
        return bool(state.bricks) and state == LineState(state.bricks)

    def shortest_end(self, state: LineState) -> int:
        """Count the characters needed to complete the current brick's line in the shortest way."""
        if self.may_end(state):
            return 0
        if state.pending and not state.numbers:
            return len(state.pending)  # the brick is complete
        written = sum(len(f"{number}{suffix}") for number, suffix in zip(state.numbers, SUFFIXES, strict=False))
        return min(self._shortest_lines(state).values()) - written + len(state.pending) - len(state.digits)

    def _shortest_lines(self, state: LineState) -> dict[int, int]:
        """Return the numbers that continue the digits, each with the length of the shortest line it leads to."""
        if not state.numbers and len(state.bricks) == self.space.max_bricks:
            return {}
        found = self._numbers.get(state[:2], self._next_numbers)
        if not state.digits:
            return found
        return {number: length for number, length in found.items() if str(number).startswith(state.digits)}

    def _next_numbers(self, key: tuple[PlacedBricks, tuple[int, ...]]) -> dict[int, int]:
        """Return all possible next numbers: h, w, x, y or z."""
        bricks, numbers = key
        if len(numbers) < 2:
            return self._next_sides(bricks, numbers)
        orientation = self.space.world.library.dimensions.index(numbers[:2])
        where = (orientation, *numbers[2:])
        open_ = self.placements.open(bricks, *where)
        shortest_N = _shortest(open_, self._length_PXYZ[where])
        return {number: int(shortest_N[number]) for number in open_indices(open_, 0)}

    def _next_sides(self, bricks: PlacedBricks, numbers: tuple[int, ...]) -> dict[int, int]:
        found: dict[int, int] = {}
        for orientation, length in self._orientations.get(bricks, self._open_orientations).items():
            dimensions = self.space.world.library.dimensions[orientation]
            if dimensions[: len(numbers)] == numbers:
                side = dimensions[len(numbers)]
                found[side] = min(length, found.get(side, length))
        return found

    def _open_orientations(self, bricks: PlacedBricks) -> dict[int, int]:
        """Return the orientations that can be placed, each with the length of its shortest line."""
        open_ = self.placements.open(bricks)
        shortest_P = _shortest(open_, self._length_PXYZ)
        return {orientation: int(shortest_P[orientation]) for orientation in open_indices(open_, 0)}


def line_lengths(world: World) -> NDArray[np.int16]:
    """Return the length of a brick's line, including the newline, for each orientation and position [P, X, Y, Z].

    Positions where the brick would extend beyond the world are included.
    """
    x_size, y_size, z_size = world.size
    sides_P = np.array([len(f"{h}{w}") for h, w in world.library.dimensions], np.int16)
    sides, x, y, z = np.ix_(sides_P, _digits(x_size), _digits(y_size), _digits(z_size))
    return sides + x + y + z + np.int16(len("".join(SUFFIXES)))


def _digits(size: int) -> NDArray[np.int16]:
    return np.array([len(str(number)) for number in range(size)], np.int16)


def _shortest(open_: NDArray[np.bool_], length: NDArray[np.int16]) -> NDArray[np.int16]:
    """Return the smallest length among the open entries at each index of the first axis."""
    others = tuple(range(1, open_.ndim))
    return np.where(open_, length, np.iinfo(np.int16).max).min(axis=others)


def _with_number(state: LineState, number: int, pending: str) -> LineState:
    """Append a number; the fifth number completes a brick."""
    numbers = (*state.numbers, number)
    if len(numbers) == len(SUFFIXES):
        return LineState((*state.bricks, Brick._make(numbers)), (), "", pending)
    return LineState(state.bricks, numbers, "", pending)
