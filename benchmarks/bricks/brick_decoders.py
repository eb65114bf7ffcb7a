"""What a policy writes for brick briefs, under its constraint, free, or by BrickGPT's decoding at equal tokens."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from benchmarks.bricks.rejection import BRICKGPT, Building, building, building_standing
from benchmarks.bricks.token_budget import Try, counted, side_by_side, trying, used_up, won_within
from steelyard.domains.bricks.briefs import Brief, brief_of
from steelyard.domains.bricks.flaws import Reason
from steelyard.domains.bricks.outcome import outcome
from steelyard.domains.bricks.stability import assess
from steelyard.domains.bricks.structure import Structure
from steelyard.types import CutRule, Task

CONSTRAINT, FREE, REJECTION, ROLLBACK = "constraint", "free", "rejection", "rejection and rollback"
CONTEST_STEP = -2
"""Keys the draws of the comparison at equal tokens."""
AT_ONCE = 3
"""Tries for a brief that are sampled together; those behind the first success count for nothing."""


class Seen(NamedTuple):
    """What became of a text."""

    valid: bool
    stable: bool
    success: bool


@dataclass(frozen=True)
class Look:
    """What a model wrote at one stage: for each brief what was seen of its samples, and the tokens they took."""

    stage: str
    decoding: str
    kinds: list[str]
    seen: list[list[Seen]]
    tokens: float

    def share(self, name: str) -> list[float]:
        """Of the samples of each brief."""
        return [sum(getattr(one, name) for one in found) / len(found) for found in self.seen]

    def mean(self, name: str) -> float:
        shares = self.share(name)
        return sum(shares) / len(shares)

    def by_kind(self) -> dict[str, float]:
        found: dict[str, list[float]] = defaultdict(list)
        for kind, success in zip(self.kinds, self.share("success"), strict=True):
            found[kind].append(success)
        return {kind: sum(shares) / len(shares) for kind, shares in found.items()}


@dataclass(frozen=True)
class Contest:
    """The tries of one decoding at one stage, brief by brief."""

    stage: str
    decoding: str
    tries: list[list[Try]]

    def won(self, budget: int) -> float:
        return sum(won_within(self.tries, budget)) / len(self.tries)


class Bench:
    """Briefs, and what a policy makes of them; the random numbers are the same at every stage."""

    def __init__(self, config: Any, tasks: Sequence[Task], tell: Callable[[str], None]) -> None:
        from steelyard.compose import build_decoding, build_domain

        self.tasks, self.tell, self.seed = list(tasks), tell, config.run.seed
        self.domain: Any = build_domain(config)
        self.decoding = build_decoding(config)

    def looks(self, stage: str, policy: Any, samples: int) -> Iterator[Look]:
        """So many samples a brief under the constraint, and as many free."""
        from steelyard.sampling.local import LocalSampler
        from steelyard.training.evaluation import EVALUATION_STEP
        from steelyard.training.phases import requests_for, sample

        requests = requests_for(self.tasks, EVALUATION_STEP, samples)
        for decoding in (CONSTRAINT, FREE):
            self.tell(f"{stage}: looking, {decoding}")
            with unconstrained(policy) if decoding == FREE else nullcontext():
                made = sample(LocalSampler(policy, seed=self.seed), requests, self.decoding)
            found: list[list[Seen]] = [[] for _ in self.tasks]
            for one in made:
                found[one.key.slot].append(self.judged(self.tasks[one.key.slot], one.text))
            tokens = sum(len(one.completion_ids) for one in made) / len(made)
            yield Look(stage, decoding, [str(task.spec["kind"]) for task in self.tasks], found, tokens)

    def contests(self, stage: str, policy: Any, budget: int) -> Iterator[Contest]:
        """All decodings of the same model, with so many tokens a brief."""
        self.tell(f"{stage}: equal tokens, {CONSTRAINT}")
        yield Contest(stage, CONSTRAINT, self.constrained_tries(policy, budget))
        for decoding in (REJECTION, ROLLBACK):
            self.tell(f"{stage}: equal tokens, {decoding}")
            yield Contest(stage, decoding, self.rejecting_tries(policy, budget, rollback=decoding == ROLLBACK))

    def constrained_tries(self, policy: Any, budget: int) -> list[list[Try]]:
        """Every token of a sample counts, those that were forced and cost no draw among them."""
        from steelyard.sampling.base import SampleRequest
        from steelyard.sampling.local import LocalSampler

        decoding = replace(self.decoding, rule=CutRule(temperature=BRICKGPT.temperature))
        sampler, made = LocalSampler(policy, seed=self.seed), [list[Try]() for _ in self.tasks]
        for attempt in itertools.count():
            places = [place for place, tries in enumerate(made) if not used_up(tries, budget)]
            if not places:
                break
            asked = [SampleRequest(self.tasks[place], CONTEST_STEP, place, AT_ONCE, attempt) for place in places]
            for one in sorted(sampler.sample(asked, decoding), key=lambda one: one.key):
                success = self.judged(self.tasks[one.key.slot], one.text).success
                made[one.key.slot].append(Try(len(one.completion_ids), success))
            for place in places:
                made[place] = counted(made[place], budget)
        return made

    def rejecting_tries(self, policy: Any, budget: int, *, rollback: bool) -> list[list[Try]]:
        """All briefs side by side, each line written by the model without its constraint."""
        from benchmarks.bricks.line_writer import LineWriter

        space = self.domain.action_space
        room = space.most * space.tokens_per_brick
        writer = LineWriter(policy, [task.prompt for task in self.tasks], room=room, seed=self.seed)
        briefs = [brief_of(task.spec) for task in self.tasks]
        goings = [trying(partial(self.begin, brief, rollback), partial(succeeds, brief), budget) for brief in briefs]
        return side_by_side(goings, writer)

    def begin(self, brief: Brief, rollback: bool) -> Building:
        """A structure from the start, as BrickGPT builds it; rollback knows the brief's load."""
        world, most = self.domain.world, self.domain.most
        if rollback:
            return building_standing(world, most=most, failing=lambda structure: failing_under(brief, structure))
        return building(world, most=most)

    def judged(self, task: Task, text: str) -> Seen:
        return seen(self.domain.action_space, task, text)


def seen(space: Any, task: Task, text: str) -> Seen:
    """Judge a text by what could be placed of it; a text without any brick is nothing."""
    reading = space.read(text)
    if not reading.structure.bricks:
        return Seen(valid=False, stable=False, success=False)
    found = outcome(reading.structure, brief_of(task.spec))
    valid = all(flaw.reason is Reason.FLOATING for flaw in reading.flaws)  # what floats was placed
    return Seen(valid, found.stands and found.connectivity == 1.0, valid and found.success)


def succeeds(brief: Brief, structure: Structure) -> bool:
    return bool(structure.bricks) and outcome(structure, brief).success


def failing_under(brief: Brief, structure: Structure) -> tuple[int, ...]:
    """The bricks that do not stand with the brief's load on."""
    return assess(structure, brief.loads(structure)).failing


@contextmanager
def unconstrained(policy: Any) -> Iterator[None]:
    """The policy without its constraint, for a while."""
    kept, policy.constraint = policy.constraint, None
    try:
        yield
    finally:
        policy.constraint = kept
