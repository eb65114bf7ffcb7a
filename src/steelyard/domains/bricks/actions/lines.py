"""The text format itself, ``2x4 (8,8,0)`` a line, for language models: an automaton over characters that knows the
world. Lifted through the token trie (``steelyard.constraints.trie``) it fits any tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard.constraints.automaton import Automaton, Memo
from steelyard.domains.bricks import text as texts
from steelyard.domains.bricks.actions.base import Bounds, along
from steelyard.domains.bricks.actions.places import Bricks, Places
from steelyard.domains.bricks.structure import Brick, Structure, World
from steelyard.types import Task

BEHIND = ("x", " (", ",", ",", ")\n")
"""What comes behind each of the five numbers of a line."""
REMEMBERED = 20_000


@dataclass(frozen=True)
class Lines(Bounds):
    """One line a brick, in numbers without leading zeros; every line ends, the last one too."""

    @property
    def tokens_per_brick(self) -> int:
        return int(line_lengths(self.world).max())

    def vocabulary(self) -> None:
        """Any tokenizer with a token for each character that occurs."""

    def automaton(self) -> LinesAutomaton:
        return LinesAutomaton(self)

    def write(self, structure: Structure) -> str:
        return texts.write(structure)

    def read(self, text: str) -> texts.Reading:
        return texts.read(text, self.world)

    def ends(self, text: str) -> tuple[int, ...]:
        return tuple(accumulate((len(line) + 1 for line in text.split("\n")), initial=-1))[1:]


class Line(NamedTuple):
    """The bricks of the lines before, and of the line that was begun its finished numbers, the digits of the next one,
    and the rest of what must come behind the last one.
    """

    bricks: Bricks
    numbers: tuple[int, ...] = ()
    digits: str = ""
    owed: str = ""


class LinesAutomaton(Automaton[Line]):
    """A character may come if at least one brick whose line goes on with it can be placed."""

    def __init__(self, space: Lines) -> None:
        self.space = space
        self.places = Places(space.world, may_float=space.may_float)
        self.stretch = space.tokens_per_brick
        self._length_PXYZ = line_lengths(space.world)
        self._numbers: Memo[tuple[Bricks, tuple[int, ...]], dict[int, int]] = Memo(REMEMBERED)
        self._ways: Memo[Bricks, dict[int, int]] = Memo(REMEMBERED)

    def alphabet(self) -> list[str]:
        world = self.space.world
        sides = [side for way in world.library.dimensions for side in way]
        numbers = [*sides, *range(max(world.size))]
        return sorted(set("".join(BEHIND)).union(*map(str, numbers)))

    def start(self, task: Task) -> Line:
        return Line(())

    def moves(self, state: Line) -> Mapping[str, Line]:
        bricks, numbers, digits, owed = state
        if owed:
            return {owed[0]: Line(bricks, numbers, "", owed[1:])}
        following: dict[str, Line] = {}
        for number in self._lines_by_number(state):
            written = str(number)
            if written == digits:
                behind = BEHIND[len(numbers)]
                following[behind[0]] = _with_number(state, number, behind[1:])
            else:
                longer = written[: len(digits) + 1]
                following[longer[-1]] = Line(bricks, numbers, longer)
        return following

    def may_end(self, state: Line) -> bool:
        return bool(state.bricks) and state == Line(state.bricks)

    def shortest_end(self, state: Line) -> int:
        """The shortest line of a brick that can still come of this one, less what is written of it."""
        if self.may_end(state):
            return 0
        if state.owed and not state.numbers:
            return len(state.owed)  # a whole brick was said
        written = sum(len(f"{number}{behind}") for number, behind in zip(state.numbers, BEHIND, strict=False))
        return min(self._lines_by_number(state).values()) - written + len(state.owed) - len(state.digits)

    def _lines_by_number(self, state: Line) -> dict[int, int]:
        """The numbers that can come of the digits, each with the length of the shortest line it can lead to."""
        if not state.numbers and len(state.bricks) == self.space.most:
            return {}
        found = self._numbers.get(state[:2], self._next_numbers)
        if not state.digits:
            return found
        return {number: length for number, length in found.items() if str(number).startswith(state.digits)}

    def _next_numbers(self, key: tuple[Bricks, tuple[int, ...]]) -> dict[int, int]:
        """All numbers that can come next: h, w, x, y or z."""
        bricks, numbers = key
        if len(numbers) < 2:
            return self._next_sides(bricks, numbers)
        way = self.space.world.library.dimensions.index(numbers[:2])
        where = (way, *numbers[2:])
        open_ = self.places.open(bricks, *where)
        shortest_N = _shortest(open_, self._length_PXYZ[where])
        return {number: int(shortest_N[number]) for number in along(open_, 0)}

    def _next_sides(self, bricks: Bricks, numbers: tuple[int, ...]) -> dict[int, int]:
        found: dict[int, int] = {}
        for way, length in self._ways.get(bricks, self._open_ways).items():
            dimensions = self.space.world.library.dimensions[way]
            if dimensions[: len(numbers)] == numbers:
                side = dimensions[len(numbers)]
                found[side] = min(length, found.get(side, length))
        return found

    def _open_ways(self, bricks: Bricks) -> dict[int, int]:
        """The ways to lie for which there is a place, each with its shortest line."""
        open_ = self.places.open(bricks)
        shortest_P = _shortest(open_, self._length_PXYZ)
        return {way: int(shortest_P[way]) for way in along(open_, 0)}


def line_lengths(world: World) -> NDArray[np.int16]:
    """The characters of the line of a brick, its end among them, for each way to lie and each place [P, X, Y, Z];
    places are counted even if the brick would stick out.
    """
    x_size, y_size, z_size = world.size
    ways_P = np.array([len(f"{h}{w}") for h, w in world.library.dimensions], np.int16)
    way, x, y, z = np.ix_(ways_P, _digits(x_size), _digits(y_size), _digits(z_size))
    return way + x + y + z + np.int16(len("".join(BEHIND)))


def _digits(size: int) -> NDArray[np.int16]:
    return np.array([len(str(number)) for number in range(size)], np.int16)


def _shortest(open_: NDArray[np.bool_], length: NDArray[np.int16]) -> NDArray[np.int16]:
    """The least length at each index of the first axis, of what is open there."""
    behind = tuple(range(1, open_.ndim))
    return np.where(open_, length, np.iinfo(np.int16).max).min(axis=behind)


def _with_number(state: Line, number: int, owed: str) -> Line:
    """The last of five numbers makes a brick."""
    numbers = (*state.numbers, number)
    if len(numbers) == len(BEHIND):
        return Line((*state.bricks, Brick._make(numbers)), (), "", owed)
    return Line(state.bricks, numbers, "", owed)
