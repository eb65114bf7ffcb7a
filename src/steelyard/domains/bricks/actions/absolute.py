"""Absolute coordinates: ``x8 y8 z0 2x4`` is a 2x4 brick with its lowest corner at (8, 8, 0)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard.domains.bricks.actions.base import BaseActionSpace, WordAutomaton, WordState, open_indices
from steelyard.domains.bricks.actions.placements import ALL
from steelyard.domains.bricks.actions.words import NUMBER, part_words, read_words, word_ends
from steelyard.domains.bricks.structure import Brick, Structure
from steelyard.domains.bricks.text import Reading

FORM = "x8 y8 z0 2x4"
BRICK = re.compile(rf"x{NUMBER} y{NUMBER} z{NUMBER} {NUMBER}x{NUMBER}", re.ASCII)
WORDS = 4


@dataclass(frozen=True)
class Absolute(BaseActionSpace):
    """Four words per brick: x, y, z and the oriented part."""

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
    """Allows a word if at least one brick that starts with it can be placed."""

    stretch = WORDS - 1

    def moves(self, state: WordState) -> Mapping[str, WordState]:
        bricks, prefix = state
        if len(bricks) == self.space.max_bricks:
            return {}
        open_ = self.placements.open(bricks, ALL, *prefix)
        if len(prefix) == WORDS - 1:
            dimensions = self.space.world.library.dimensions
            orientations = (dimensions[orientation] for orientation in open_indices(open_, 0))
            return {f"{h}x{w}": WordState((*bricks, Brick(h, w, *prefix))) for h, w in orientations}
        return {
            f"{'xyz'[len(prefix)]}{number}": WordState(bricks, (*prefix, number)) for number in open_indices(open_, 1)
        }

    def shortest_end(self, state: WordState) -> int:
        """Count the words needed to complete the current brick, which is always possible."""
        return 0 if self.may_end(state) else WORDS - len(state.prefix)


def _decode(words: str, _placed: Sequence[Brick]) -> Brick | None:
    if not (match := BRICK.fullmatch(words)):
        return None
    x, y, z, h, w = map(int, match.groups())
    return Brick(h, w, x, y, z)
