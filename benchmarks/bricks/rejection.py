"""BrickGPT's decoding (Pun et al., 2025): rejection sampling and rollback instead of a constraint.

A brick that cannot be placed is sampled again. A structure that collapses is cut back and continued. This decoding
serves only for comparison at inference time: its bricks do not follow the policy's distribution.

A *building* is a generator that yields requests for lines and receives the lines. A model can therefore write the lines
of many buildings in one batch. ``build`` and ``build_standing`` each run a single building with one proposer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from steelyard.domains.bricks.flaws import Reason
from steelyard.domains.bricks.stability import assess
from steelyard.domains.bricks.structure import Brick, Site, Structure, World
from steelyard.domains.bricks.text import parse_brick, write


class LineRequest(NamedTuple):
    """A request for the next line, given the text so far and a temperature."""

    text: str
    temperature: float


Propose = Callable[[str, float], str]
"""Returns the next line, given the text so far and a temperature; a blank line ends the structure."""
Failing = Callable[[Structure], Sequence[int]]
"""Returns the indices of the failing bricks; empty if the structure stands."""
ALREADY_REJECTED = "already rejected"


@dataclass(frozen=True)
class RejectionLimits:
    """Limits on rejections and rollbacks, and the temperature; the defaults are BrickGPT's."""

    rejections: int = 500
    """Maximum number of rejections per brick; one more ends the structure."""
    rollbacks: int = 100
    temperature: float = 0.6
    warmer: float = 0.01
    """Added to the temperature when the proposed line was already rejected at this position."""


BRICKGPT = RejectionLimits()


@dataclass(frozen=True)
class BuildResult:
    """A structure whose bricks can all be placed, and the cost of building it."""

    structure: Structure
    stands: bool | None
    """``None`` if stability was not checked."""
    proposals: int
    """Number of lines requested, including the end."""
    rejected: Counter[str]
    """Number of rejected lines by reason."""
    rollbacks: int
    gave_up: bool
    """Whether the limit on rejections ended the structure, rather than the proposer or ``max_bricks``."""


Building = Generator[LineRequest, str | None, BuildResult]
"""Yields requests, receives lines, and returns the result."""


def failing_bricks(structure: Structure) -> tuple[int, ...]:
    """Return the bricks that fail under the structure's own weight, according to the solver."""
    return assess(structure).failing


def build(propose: Propose, world: World, *, max_bricks: int, limits: RejectionLimits = BRICKGPT) -> BuildResult:
    """Build a structure by rejection sampling alone."""
    return _run(building(world, max_bricks=max_bricks, limits=limits), propose)


def build_standing(
    propose: Propose,
    world: World,
    *,
    max_bricks: int,
    limits: RejectionLimits = BRICKGPT,
    failing: Failing = failing_bricks,
) -> BuildResult:
    """Build a structure by rejection sampling with rollback: while it collapses, cut it back and continue."""
    return _run(building_standing(world, max_bricks=max_bricks, limits=limits, failing=failing), propose)


def building(world: World, *, max_bricks: int, limits: RejectionLimits = BRICKGPT) -> Building:
    """Run ``build`` as a generator that requests lines."""
    builder = _Builder(max_bricks, limits)
    structure = yield from builder.extend(Structure((), world))
    return builder.built(structure, None, 0)


def building_standing(
    world: World, *, max_bricks: int, limits: RejectionLimits = BRICKGPT, failing: Failing = failing_bricks
) -> Building:
    """Run ``build_standing`` as a generator that requests lines."""
    builder = _Builder(max_bricks, limits)
    structure, rollbacks = (yield from builder.extend(Structure((), world))), 0
    while (fails := failing(structure)) and rollbacks < limits.rollbacks:
        structure = yield from builder.extend(cut_back(structure, failing, fails))
        rollbacks += 1
    return builder.built(structure, bool(structure.bricks) and not fails, rollbacks)


def cut_back(structure: Structure, failing: Failing, fails: Sequence[int]) -> Structure:
    """Cut the structure before its first failing brick, repeatedly, until the rest stands."""
    while fails:
        structure = Structure(structure.bricks[: min(fails)], structure.world)
        fails = failing(structure)
    return structure


class _Builder:
    """Requests bricks and counts proposals and rejections."""

    def __init__(self, max_bricks: int, limits: RejectionLimits) -> None:
        self.max_bricks, self.limits = max_bricks, limits
        self.proposals, self.rejected, self.gave_up = 0, Counter[str](), False

    def extend(self, structure: Structure) -> Generator[LineRequest, str | None, Structure]:
        """Add bricks until the proposer ends, ``max_bricks`` is reached or a brick exceeds the limit on rejections."""
        site = Site(structure.world)
        for brick in structure.bricks:
            site.add(brick)
        self.gave_up = False
        while len(site.bricks) < self.max_bricks and (brick := (yield from self._next(site))):
            site.add(brick)
        return site.structure()

    def built(self, structure: Structure, stands: bool | None, rollbacks: int) -> BuildResult:
        return BuildResult(structure, stands, self.proposals, self.rejected, rollbacks, self.gave_up)

    def _next(self, site: Site) -> Generator[LineRequest, str | None, Brick | None]:
        """Return the first proposal that can be placed; ``None`` ends the structure."""
        text, temperature, tried = write(site.bricks), self.limits.temperature, set[str]()
        for _ in range(self.limits.rejections + 1):
            line = ((yield LineRequest(text, temperature)) or "").strip()
            self.proposals += 1
            if not line:
                return None
            if line in tried:
                self.rejected[ALREADY_REJECTED] += 1
                temperature += self.limits.warmer
                continue
            brick = parse_brick(line)
            problem = Reason.ILL_FORMATTED if brick is None else _reason(site, brick)
            if problem is None:
                return brick
            self.rejected[str(problem)] += 1
            tried.add(line)
        self.gave_up = True
        return None


def _run(building: Building, propose: Propose) -> BuildResult:
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
