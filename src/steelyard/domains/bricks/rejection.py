"""Decoding without a constraint, as BrickGPT does (Pun et al., 2025): bricks that cannot be placed are drawn again, and
what does not stand is cut back and drawn anew. For comparison at inference: what it draws is not what the policy says.

A *building* is a generator that asks for lines and is sent them, so that many can be followed side by side and a model
can write the lines of all of them at once; ``build`` and ``build_standing`` follow one of them with one proposer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from steelyard.domains.bricks.flaws import Reason
from steelyard.domains.bricks.stability import assess
from steelyard.domains.bricks.structure import Brick, Site, Structure, World
from steelyard.domains.bricks.text import brick_of, write


class Asked(NamedTuple):
    """The line that comes next is asked for, given the text so far and a temperature."""

    text: str
    temperature: float


Propose = Callable[[str, float], str]
"""The line that comes next, given the text so far and a temperature; white space alone is the end."""
Failing = Callable[[Structure], Sequence[int]]
"""The places of the bricks that do not stand; none if all do."""
ALREADY_REJECTED = "already rejected"


@dataclass(frozen=True)
class Patience:
    """How long to go on; the defaults are those of BrickGPT."""

    rejections: int = 500
    """The most for one brick; after one more the structure ends there."""
    rollbacks: int = 100
    temperature: float = 0.6
    warmer: float = 0.01
    """Added whenever a brick is proposed that was rejected before in the same place."""


BRICKGPT = Patience()


@dataclass(frozen=True)
class Built:
    """A structure without collisions and the like, and what it took."""

    structure: Structure
    stands: bool | None
    """``None``: nobody asked."""
    proposals: int
    """All lines that were asked for, the end among them."""
    rejected: Counter[str]
    """How many of them were rejected, by reason."""
    rollbacks: int
    gave_up: bool
    """Whether patience, and not the proposer or ``most``, made the end."""


Building = Generator[Asked, str | None, Built]
"""Yields what is asked for, is sent the line, and returns what was built."""


def failing_bricks(structure: Structure) -> tuple[int, ...]:
    """The bricks that do not stand by their own weight, by the solver."""
    return assess(structure).failing


def build(propose: Propose, world: World, *, most: int, patience: Patience = BRICKGPT) -> Built:
    """Rejection sampling alone."""
    return _followed(building(world, most=most, patience=patience), propose)


def build_standing(
    propose: Propose,
    world: World,
    *,
    most: int,
    patience: Patience = BRICKGPT,
    failing: Failing = failing_bricks,
) -> Built:
    """Rejection sampling, then rollback: while the structure does not stand, cut it back and go on from there."""
    return _followed(building_standing(world, most=most, patience=patience, failing=failing), propose)


def building(world: World, *, most: int, patience: Patience = BRICKGPT) -> Building:
    """``build``, asking for lines."""
    builder = _Builder(most, patience)
    structure = yield from builder.go_on(Structure((), world))
    return builder.built(structure, None, 0)


def building_standing(
    world: World, *, most: int, patience: Patience = BRICKGPT, failing: Failing = failing_bricks
) -> Building:
    """``build_standing``, asking for lines."""
    builder = _Builder(most, patience)
    structure, rollbacks = (yield from builder.go_on(Structure((), world))), 0
    while (fails := failing(structure)) and rollbacks < patience.rollbacks:
        structure = yield from builder.go_on(cut_back(structure, failing, fails))
        rollbacks += 1
    return builder.built(structure, bool(structure.bricks) and not fails, rollbacks)


def cut_back(structure: Structure, failing: Failing, fails: Sequence[int]) -> Structure:
    """The longest beginning that stands among those cut before the first brick that fails, again and again."""
    while fails:
        structure = Structure(structure.bricks[: min(fails)], structure.world)
        fails = failing(structure)
    return structure


class _Builder:
    """Asks for bricks and keeps count."""

    def __init__(self, most: int, patience: Patience) -> None:
        self.most, self.patience = most, patience
        self.proposals, self.rejected, self.gave_up = 0, Counter[str](), False

    def go_on(self, structure: Structure) -> Generator[Asked, str | None, Structure]:
        """Bricks more, until the proposer ends, or the most bricks or the end of patience is reached."""
        site = Site(structure.world)
        for brick in structure.bricks:
            site.add(brick)
        self.gave_up = False
        while len(site.bricks) < self.most and (brick := (yield from self._next(site))):
            site.add(brick)
        return site.structure()

    def built(self, structure: Structure, stands: bool | None, rollbacks: int) -> Built:
        return Built(structure, stands, self.proposals, self.rejected, rollbacks, self.gave_up)

    def _next(self, site: Site) -> Generator[Asked, str | None, Brick | None]:
        """The first proposal that can be placed; ``None``: the end."""
        text, temperature, before = write(site.bricks), self.patience.temperature, set[str]()
        for _ in range(self.patience.rejections + 1):
            line = ((yield Asked(text, temperature)) or "").strip()
            self.proposals += 1
            if not line:
                return None
            if line in before:
                self.rejected[ALREADY_REJECTED] += 1
                temperature += self.patience.warmer
                continue
            brick = brick_of(line)
            problem = Reason.ILL_FORMATTED if brick is None else _reason(site, brick)
            if problem is None:
                return brick
            self.rejected[str(problem)] += 1
            before.add(line)
        self.gave_up = True
        return None


def _followed(building: Building, propose: Propose) -> Built:
    line: str | None = None
    while True:
        try:
            asked = building.send(line)
        except StopIteration as end:
            return end.value
        line = propose(asked.text, asked.temperature)


def _reason(site: Site, brick: Brick) -> Reason | None:
    problem = site.problem(brick)
    return None if problem is None else problem[0]
