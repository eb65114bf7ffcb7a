"""Two-step placement: a pivot and an offset from it, followed by a part: ``back1 x+0 y-1 z+1 2x4``.

The pivot is the ground or an earlier brick, counted backwards: ``back1`` is the last brick. The lowest corner of the
new brick is the pivot's lowest corner plus the offset. On the ground the position is absolute and z is 0 (``ground x8
y8 2x4``). The same words therefore describe the same part of a structure wherever and whenever it is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from steelyard.domains.bricks.actions.base import BaseActionSpace
from steelyard.domains.bricks.actions.two_step_automaton import GROUND, PlaceNotation, TwoStepAutomaton
from steelyard.domains.bricks.actions.words import NUMBER, SIGNED, part_words, read_words, word_ends
from steelyard.domains.bricks.structure import Brick, Structure
from steelyard.domains.bricks.text import Reading
from steelyard.errors import ConstraintError

BACK = r"back([1-9]\d{0,8})"


@dataclass(frozen=True)
class TwoStep(BaseActionSpace):
    """Five words per brick (four on the ground), or three if ``joint``: pivot, offset, part."""

    reach: tuple[int, int, int] = (7, 7, 1)
    """Largest offset along each axis. Use the longest side minus 1 along x and y, and 1 along z, to be able to express
    every brick that touches an earlier one from above or below.
    """
    joint: bool = False
    """Use a single word for an offset or position, which shortens the text but enlarges the vocabulary."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "reach", tuple(self.reach))
        if len(self.reach) != 3 or min(self.reach) < 0:
            raise ConstraintError(f"reach = {self.reach} must be three non-negative offsets along x, y and z")

    @property
    def tokens_per_brick(self) -> int:
        return 3 if self.joint else 5

    @cached_property
    def notation(self) -> PlaceNotation:
        return PlaceNotation(self.joint)

    def vocabulary(self) -> tuple[str, ...]:
        pivots = (f"back{back}" for back in range(1, self.max_bricks))
        return GROUND, *pivots, *self._place_words(), *part_words(self.world.library)

    def automaton(self) -> TwoStepAutomaton:
        return TwoStepAutomaton(self, self.notation, self.reach)

    def write(self, structure: Structure) -> str:
        """Write each brick relative to a pivot within reach.

        On the ground the pivot is the last brick there, or the ground if that brick is too far away. In higher layers
        the pivot is the last brick that touches the new one from above or below, or else the last brick within reach.
        """
        return " ".join(self._words(structure.bricks, index) for index in range(len(structure)))

    def read(self, text: str) -> Reading:
        """Read text leniently; pivots count only bricks that could be placed."""
        return read_words(text, self._decode, self.world, f"{self._form[0]} or {self._form[1]}")

    def ends(self, text: str) -> tuple[int, ...]:
        return word_ends(text)

    def _place_words(self) -> Iterator[str]:
        x_size, y_size, _ = self.world.size
        offsets = [range(-reach, reach + 1) for reach in self.reach]
        if self.joint:
            yield from (self.notation.ground(x, y) for x, y in product(range(x_size), range(y_size)))
            yield from (self.notation.offset(*offset) for offset in product(*offsets))
        else:
            yield from (f"x{x}" for x in range(x_size))
            yield from (f"y{y}" for y in range(y_size))
            yield from (f"{axis}{d:+d}" for axis, along in zip("xyz", offsets, strict=True) for d in along)

    def _words(self, bricks: Sequence[Brick], index: int) -> str:
        brick = bricks[index]
        back = self._neighbour(bricks[:index], brick) if brick.z == 0 else self._pivot(bricks[:index], brick)
        if back is None:
            return f"{GROUND} {self.notation.ground(brick.x, brick.y)} {brick.h}x{brick.w}"
        x, y, z = (here - there for here, there in zip(brick[2:], bricks[index - back][2:], strict=True))
        return f"back{back} {self.notation.offset(x, y, z)} {brick.h}x{brick.w}"

    def _neighbour(self, placed: Sequence[Brick], brick: Brick) -> int | None:
        """Return the last brick on the ground if it is within reach."""
        last = next((back for back, pivot in enumerate(reversed(placed), 1) if pivot.z == 0), None)
        return last if last is not None and self._reaches(placed[-last], brick) else None

    def _pivot(self, placed: Sequence[Brick], brick: Brick) -> int:
        near = [back for back, pivot in enumerate(reversed(placed), 1) if self._reaches(pivot, brick)]
        touching = (back for back in near if _touch(placed[-back], brick))
        if not near:
            raise ConstraintError(
                f"{brick} cannot be expressed: no earlier brick is within reach = {self.reach}; order the bricks so "
                "that each touches an earlier one (in_building_order), or raise reach"
            )
        return next(touching, near[0])

    def _reaches(self, pivot: Brick, brick: Brick) -> bool:
        return all(abs(a - b) <= reach for a, b, reach in zip(pivot[2:], brick[2:], self.reach, strict=True))

    @property
    def _form(self) -> tuple[str, str]:
        notation = self.notation
        return f"{GROUND} {notation.ground(8, 8)} 2x4", f"back1 {notation.offset(0, -1, 1)} 2x4"

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        ground = f"{NUMBER},{NUMBER}" if self.joint else f"x{NUMBER} y{NUMBER}"
        offset = SIGNED * 3 if self.joint else f"x{SIGNED} y{SIGNED} z{SIGNED}"
        part = f"{NUMBER}x{NUMBER}"
        return re.compile(f"{GROUND} {ground} {part}", re.ASCII), re.compile(f"{BACK} {offset} {part}", re.ASCII)

    def _decode(self, words: str, placed: Sequence[Brick]) -> Brick | None:
        on_ground, from_brick = self._patterns
        if match := on_ground.fullmatch(words):
            x, y, h, w = map(int, match.groups())
            return Brick(h, w, x, y, 0)
        if not (match := from_brick.fullmatch(words)) or int(match[1]) > len(placed):
            return None
        pivot = placed[-int(match[1])]
        dx, dy, dz, h, w = map(int, match.groups()[1:])
        return Brick(h, w, pivot.x + dx, pivot.y + dy, pivot.z + dz)


def _touch(one: Brick, other: Brick) -> bool:
    """Return whether one brick rests at least partly on the other."""
    beside_x = one.x + one.h <= other.x or other.x + other.h <= one.x
    beside_y = one.y + one.w <= other.y or other.y + other.w <= one.y
    return abs(one.z - other.z) == 1 and not (beside_x or beside_y)
