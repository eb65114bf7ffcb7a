"""Two steps, a pivot and an offset from it, then a part: ``back1 x+0 y-1 z+1 2x4``.

The pivot is the ground or a brick that stands already, counted backwards: ``back1`` is the last one. The new brick's
lowest corner is at the pivot's lowest corner plus the offset; on the ground the place itself is said, and z is 0
(``ground x8 y8 2x4``). So the same words say the same part of a structure wherever and whenever it is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from steelyard.domains.bricks.actions.base import Bounds
from steelyard.domains.bricks.actions.two_step_automaton import GROUND, TwoStepAutomaton, Wording
from steelyard.domains.bricks.actions.words import NUMBER, SIGNED, part_words, read_words, word_ends
from steelyard.domains.bricks.structure import Brick, Structure
from steelyard.domains.bricks.text import Reading
from steelyard.errors import ConstraintError

BACK = r"back([1-9]\d{0,8})"


@dataclass(frozen=True)
class TwoStep(Bounds):
    """Five words a brick (four on the ground), or three if ``joint``: pivot, whole offset, part."""

    reach: tuple[int, int, int] = (7, 7, 1)
    """The largest offset along each axis. With the longest side less 1, and 1 along z, every brick that touches an
    earlier one from above or below can be said."""
    joint: bool = False
    """One word for a whole offset or place: shorter texts, a larger vocabulary."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "reach", tuple(self.reach))
        if len(self.reach) != 3 or min(self.reach) < 0:
            raise ConstraintError(f"reach is {self.reach}; give three offsets along x, y and z, none below 0")

    @property
    def tokens_per_brick(self) -> int:
        return 3 if self.joint else 5

    @cached_property
    def wording(self) -> Wording:
        return Wording(self.joint)

    def vocabulary(self) -> tuple[str, ...]:
        pivots = (f"back{back}" for back in range(1, self.most))
        return GROUND, *pivots, *self._place_words(), *part_words(self.world.library)

    def automaton(self) -> TwoStepAutomaton:
        return TwoStepAutomaton(self, self.wording, self.reach)

    def write(self, structure: Structure) -> str:
        """On the ground from the last brick there, or from the ground itself if that is far. Higher up from the
        last brick that it touches from above or below, or if there is none within reach, from the last one within it.
        """
        return " ".join(self._words(structure.bricks, place) for place in range(len(structure)))

    def read(self, text: str) -> Reading:
        """A pivot counts among the bricks that could be placed."""
        return read_words(text, self._decode, self.world, f"{self._form[0]} or {self._form[1]}")

    def ends(self, text: str) -> tuple[int, ...]:
        return word_ends(text)

    def _place_words(self) -> Iterator[str]:
        x_size, y_size, _ = self.world.size
        offsets = [range(-reach, reach + 1) for reach in self.reach]
        if self.joint:
            yield from (self.wording.ground(x, y) for x, y in product(range(x_size), range(y_size)))
            yield from (self.wording.offset(*offset) for offset in product(*offsets))
        else:
            yield from (f"x{x}" for x in range(x_size))
            yield from (f"y{y}" for y in range(y_size))
            yield from (f"{axis}{d:+d}" for axis, along in zip("xyz", offsets, strict=True) for d in along)

    def _words(self, bricks: Sequence[Brick], place: int) -> str:
        brick = bricks[place]
        back = self._neighbour(bricks[:place], brick) if brick.z == 0 else self._pivot(bricks[:place], brick)
        if back is None:
            return f"{GROUND} {self.wording.ground(brick.x, brick.y)} {brick.h}x{brick.w}"
        x, y, z = (here - there for here, there in zip(brick[2:], bricks[place - back][2:], strict=True))
        return f"back{back} {self.wording.offset(x, y, z)} {brick.h}x{brick.w}"

    def _neighbour(self, standing: Sequence[Brick], brick: Brick) -> int | None:
        """The last brick on the ground, if it is within reach."""
        last = next((back for back, pivot in enumerate(reversed(standing), 1) if pivot.z == 0), None)
        return last if last is not None and self._reaches(standing[-last], brick) else None

    def _pivot(self, standing: Sequence[Brick], brick: Brick) -> int:
        near = [back for back, pivot in enumerate(reversed(standing), 1) if self._reaches(pivot, brick)]
        touching = (back for back in near if _touch(standing[-back], brick))
        if not near:
            raise ConstraintError(
                f"{brick} cannot be said: no earlier brick is within reach {self.reach}; order the bricks so that each "
                "touches an earlier one (in_building_order), or raise reach"
            )
        return next(touching, near[0])

    def _reaches(self, pivot: Brick, brick: Brick) -> bool:
        return all(abs(a - b) <= reach for a, b, reach in zip(pivot[2:], brick[2:], self.reach, strict=True))

    @property
    def _form(self) -> tuple[str, str]:
        wording = self.wording
        return f"{GROUND} {wording.ground(8, 8)} 2x4", f"back1 {wording.offset(0, -1, 1)} 2x4"

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        ground = f"{NUMBER},{NUMBER}" if self.joint else f"x{NUMBER} y{NUMBER}"
        offset = SIGNED * 3 if self.joint else f"x{SIGNED} y{SIGNED} z{SIGNED}"
        part = f"{NUMBER}x{NUMBER}"
        return re.compile(f"{GROUND} {ground} {part}", re.ASCII), re.compile(f"{BACK} {offset} {part}", re.ASCII)

    def _decode(self, words: str, standing: Sequence[Brick]) -> Brick | None:
        on_ground, from_brick = self._patterns
        if match := on_ground.fullmatch(words):
            x, y, h, w = map(int, match.groups())
            return Brick(h, w, x, y, 0)
        if not (match := from_brick.fullmatch(words)) or int(match[1]) > len(standing):
            return None
        pivot = standing[-int(match[1])]
        dx, dy, dz, h, w = map(int, match.groups()[1:])
        return Brick(h, w, pivot.x + dx, pivot.y + dy, pivot.z + dz)


def _touch(one: Brick, other: Brick) -> bool:
    """Whether one lies upon the other, at least in part."""
    beside_x = one.x + one.h <= other.x or other.x + other.h <= one.x
    beside_y = one.y + one.w <= other.y or other.y + other.w <= one.y
    return abs(one.z - other.z) == 1 and not (beside_x or beside_y)
