"""Decoders for brick briefs: the policy with and without its constraint, and BrickGPT's at equal token counts."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from benchmarks.bricks.rejection import BRICKGPT, Building, building, building_standing
from benchmarks.bricks.token_budget import (
    Attempt,
    is_finished,
    request_attempts,
    run_together,
    solved_within,
    truncate_attempts,
)
from steelyard.domains.bricks.briefs import Brief, brief_of
from steelyard.domains.bricks.flaws import Reason
from steelyard.domains.bricks.outcome import outcome
from steelyard.domains.bricks.stability import assess
from steelyard.domains.bricks.structure import Structure
from steelyard.types import CutRule, Task

CONSTRAINT, FREE, REJECTION, ROLLBACK = "constraint", "free", "rejection", "rejection and rollback"
EQUAL_TOKENS_STEP = -2
"""The step number used in the random keys for the equal-token comparison."""
CONCURRENT_ATTEMPTS = 3
"""Number of attempts per brief that are sampled together; attempts after the first success are discarded."""


class TextOutcome(NamedTuple):
    """Whether an output is valid, its structure is stable, and its brief is fulfilled."""

    valid: bool
    stable: bool
    success: bool


@dataclass(frozen=True)
class StageOutcomes:
    """Outcomes of the samples for each brief at one training stage, and the mean number of tokens per sample."""

    stage: str
    decoding: str
    kinds: list[str]
    outcomes: list[list[TextOutcome]]
    tokens: float

    def share(self, name: str) -> list[float]:
        """Return the fraction of each brief's samples that have this property."""
        return [sum(getattr(one, name) for one in found) / len(found) for found in self.outcomes]

    def mean(self, name: str) -> float:
        shares = self.share(name)
        return sum(shares) / len(shares)

    def by_kind(self) -> dict[str, float]:
        found: dict[str, list[float]] = defaultdict(list)
        for kind, success in zip(self.kinds, self.share("success"), strict=True):
            found[kind].append(success)
        return {kind: sum(shares) / len(shares) for kind, shares in found.items()}


@dataclass(frozen=True)
class BudgetRun:
    """The attempts of one decoder at one training stage, per brief."""

    stage: str
    decoding: str
    attempts: list[list[Attempt]]

    def solved(self, budget: int) -> float:
        return sum(solved_within(self.attempts, budget)) / len(self.attempts)


class DecodingEvaluator:
    """Evaluates a policy on a fixed set of briefs with the same random numbers at every stage."""

    def __init__(self, config: Any, tasks: Sequence[Task], show_status: Callable[[str], None]) -> None:
        from steelyard.compose import build_decoding, build_domain

        self.tasks, self.show_status, self.seed = list(tasks), show_status, config.run.seed
        self.domain: Any = build_domain(config)
        self.decoding = build_decoding(config)

    def evaluate(self, stage: str, policy: Any, samples: int) -> Iterator[StageOutcomes]:
        """Draw ``samples`` samples per brief under the constraint, then the same number without it."""
        from steelyard.sampling.local import LocalSampler
        from steelyard.training.evaluation import EVALUATION_STEP
        from steelyard.training.phases import requests_for, sample

        requests = requests_for(self.tasks, EVALUATION_STEP, samples)
        for decoding in (CONSTRAINT, FREE):
            self.show_status(f"{stage}: evaluating, {decoding}")
            with unconstrained(policy) if decoding == FREE else nullcontext():
                samples_drawn = sample(LocalSampler(policy, seed=self.seed), requests, self.decoding)
            found: list[list[TextOutcome]] = [[] for _ in self.tasks]
            for one in samples_drawn:
                found[one.key.slot].append(self.outcome(self.tasks[one.key.slot], one.text))
            tokens = sum(len(one.completion_ids) for one in samples_drawn) / len(samples_drawn)
            yield StageOutcomes(stage, decoding, [str(task.spec["kind"]) for task in self.tasks], found, tokens)

    def compare_at_equal_tokens(self, stage: str, policy: Any, budget: int) -> Iterator[BudgetRun]:
        """Run all decoders on the same model with ``budget`` tokens per brief."""
        self.show_status(f"{stage}: equal tokens, {CONSTRAINT}")
        yield BudgetRun(stage, CONSTRAINT, self.constrained_attempts(policy, budget))
        for decoding in (REJECTION, ROLLBACK):
            self.show_status(f"{stage}: equal tokens, {decoding}")
            yield BudgetRun(stage, decoding, self.rejection_attempts(policy, budget, rollback=decoding == ROLLBACK))

    def constrained_attempts(self, policy: Any, budget: int) -> list[list[Attempt]]:
        """Sample under the constraint; every token counts, including forced tokens, which are not sampled."""
        from steelyard.sampling.base import SampleRequest
        from steelyard.sampling.local import LocalSampler

        decoding = replace(self.decoding, rule=CutRule(temperature=BRICKGPT.temperature))
        sampler, found = LocalSampler(policy, seed=self.seed), [list[Attempt]() for _ in self.tasks]
        for attempt in itertools.count():
            slots = [slot for slot, attempts in enumerate(found) if not is_finished(attempts, budget)]
            if not slots:
                break
            requests = [
                SampleRequest(self.tasks[slot], EQUAL_TOKENS_STEP, slot, CONCURRENT_ATTEMPTS, attempt) for slot in slots
            ]
            for one in sorted(sampler.sample(requests, decoding), key=lambda one: one.key):
                success = self.outcome(self.tasks[one.key.slot], one.text).success
                found[one.key.slot].append(Attempt(len(one.completion_ids), success))
            for slot in slots:
                found[slot] = truncate_attempts(found[slot], budget)
        return found

    def rejection_attempts(self, policy: Any, budget: int, *, rollback: bool) -> list[list[Attempt]]:
        """Run all briefs together; the model writes each line without the constraint."""
        from benchmarks.bricks.line_writer import LineWriter

        space = self.domain.action_space
        room = space.max_bricks * space.tokens_per_brick
        writer = LineWriter(policy, [task.prompt for task in self.tasks], room=room, seed=self.seed)
        briefs = [brief_of(task.spec) for task in self.tasks]
        requesters = [
            request_attempts(partial(self.start, brief, rollback), partial(succeeds, brief), budget) for brief in briefs
        ]
        return run_together(requesters, writer)

    def start(self, brief: Brief, rollback: bool) -> Building:
        """Start a structure with BrickGPT's decoding; rollback takes the brief's load into account."""
        world, most = self.domain.world, self.domain.max_bricks
        if rollback:
            return building_standing(world, max_bricks=most, failing=lambda structure: failing_under(brief, structure))
        return building(world, max_bricks=most)

    def outcome(self, task: Task, text: str) -> TextOutcome:
        return text_outcome(self.domain.action_space, task, text)


def text_outcome(space: Any, task: Task, text: str) -> TextOutcome:
    """Evaluate the bricks that could be placed; an output without bricks fails every check."""
    reading = space.read(text)
    if not reading.structure.bricks:
        return TextOutcome(valid=False, stable=False, success=False)
    found = outcome(reading.structure, brief_of(task.spec))
    valid = all(flaw.reason is Reason.FLOATING for flaw in reading.flaws)  # floating bricks are still placed
    return TextOutcome(valid, found.stands and found.connectivity == 1.0, valid and found.success)


def succeeds(brief: Brief, structure: Structure) -> bool:
    return bool(structure.bricks) and outcome(structure, brief).success


def failing_under(brief: Brief, structure: Structure) -> tuple[int, ...]:
    """Return the bricks that fail under the brief's load."""
    return assess(structure, brief.loads(structure)).failing


@contextmanager
def unconstrained(policy: Any) -> Iterator[None]:
    """Remove the policy's constraint inside the context."""
    kept, policy.constraint = policy.constraint, None
    try:
        yield
    finally:
        policy.constraint = kept
