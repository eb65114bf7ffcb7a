"""Absolute coordinates: ``x8 y8 z0 2x4`` is a 2x4 with its lowest corner at (8, 8, 0)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard.domains.bricks.actions.base import Bounds, Saying, WordAutomaton, along
from steelyard.domains.bricks.actions.places import ALL
from steelyard.domains.bricks.actions.words import NUMBER, part_words, read_words, word_ends
from steelyard.domains.bricks.structure import Brick, Structure
from steelyard.domains.bricks.text import Reading

FORM = "x8 y8 z0 2x4"
PIECE = re.compile(rf"x{NUMBER} y{NUMBER} z{NUMBER} {NUMBER}x{NUMBER}", re.ASCII)
WORDS = 4


@dataclass(frozen=True)
class Absolute(Bounds):
    """Four words a brick: x, y, z and the part as it lies."""

    @property
    def tokens_per_brick(self) -> int:
        return WORDS

    def vocabulary(self) -> tuple[str, ...]:
        numbers = zip("xyz", self.world.size, strict=True)
        coordinates = (f"{axis}{number}" for axis, size in numbers for number in range(size))
        return *coordinates, *part_words(self.world.library)

    def automaton(self) -> AbsoluteAutomaton:
        return AbsoluteAutomaton(self)

    def write(self, structure: Structure) -> str:
        return " ".join(f"x{x} y{y} z{z} {h}x{w}" for h, w, x, y, z in structure.bricks)

    def read(self, text: str) -> Reading:
        return read_words(text, _decode, self.world, FORM)

    def ends(self, text: str) -> tuple[int, ...]:
        return word_ends(text)


class AbsoluteAutomaton(WordAutomaton):
    """A word may come if at least one brick that begins with it can be placed."""

    stretch = WORDS - 1

    def moves(self, state: Saying) -> Mapping[str, Saying]:
        bricks, said = state
        if len(bricks) == self.space.most:
            return {}
        open_ = self.places.open(bricks, ALL, *said)
        if len(said) == WORDS - 1:
            dimensions = self.space.world.library.dimensions
            ways = (dimensions[way] for way in along(open_, 0))
            return {f"{h}x{w}": Saying((*bricks, Brick(h, w, *said))) for h, w in ways}
        return {f"{'xyz'[len(said)]}{number}": Saying(bricks, (*said, number)) for number in along(open_, 1)}

    def shortest_end(self, state: Saying) -> int:
        """Every brick that was begun can be finished."""
        return 0 if self.may_end(state) else WORDS - len(state.said)


def _decode(words: str, _standing: Sequence[Brick]) -> Brick | None:
    if not (match := PIECE.fullmatch(words)):
        return None
    x, y, z, h, w = map(int, match.groups())
    return Brick(h, w, x, y, z)
