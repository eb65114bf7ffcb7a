"""Sampling under the theory grammar takes at most 25% longer than free sampling, and the constraint is exact.

After a short warm start, a 4-layer policy samples groups of 64, including extensions of the Standard Model. Alternating
in the same process, it samples the same number of tokens per row without a constraint. The checks used for every other
constraint follow: the sampler and learner agree on each decision, and the expected update is the gradient of the
expected reward, computed from the list of all theories in a tiny language.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.progress import Progress

from benchmarks.constraints.constrained_policies import sharpen, without_supports
from benchmarks.constraints.constraints_exact import (
    Case,
    build_case,
    deviation,
    enumerated_entropy_and_kl,
    learner_entropy_and_kl,
    true_gradient,
)
from benchmarks.constraints.constraints_parity import RULES, draw, with_recomputed_supports
from benchmarks.correctness.parity import log_prob_gaps
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.training_runs import QUIET_RUN
from steelyard.domains.theories.grammar.automaton import TheoryGrammar
from steelyard.domains.theories.model.limits import Limits
from steelyard.types import Sample, SampleKey, Task

GROUP = 64
TOKENS = 300
ROUNDS = 7
TINY = Limits(
    groups=1,
    abelian=1,
    largest=2,
    dimension=2,
    states=2,
    charge=1,
    vevs=0,
    components=1,
    scalars=0,
    multiplets=1,
    generations=1,
    terms=1,
    mass=(2, 2),
)
"""One multiplet of U(1) or SU(2), with or without a mass term."""
SHAPES: Mapping[str, dict[str, Any]] = {
    "width 256": {"model.scratch.width": 256, "model.scratch.heads": 8, "model.scratch.kv_heads": 4},
    "width 512": {"model.scratch.width": 512, "model.scratch.heads": 8, "model.scratch.kv_heads": 8},
}


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses the smaller policy, two rounds, groups of two and a wider bar."""
    figures: list[Figure] = []
    rows: list[dict[str, Cell]] = []
    rounds, examples = (2, 480) if quick else (ROUNDS, 3200)
    shapes = dict(list(SHAPES.items())[:1]) if quick else SHAPES
    bar = progress.add_task("theories-cost", total=len(shapes) * (rounds + 2) + 2)
    for name, shape in shapes.items():
        with tempfile.TemporaryDirectory() as scratch:
            progress.update(bar, description=f"{name}, warm start")
            trainer = warm_started(scratch, {**shape, "warmstart.examples": examples})
            progress.advance(bar)
            found = list(time_rounds(trainer, rounds, name, progress, bar))
        ratios = [float(row["ratio"]) for row in found]
        middle, spread = statistics.median(ratios), max(ratios) - min(ratios)
        figures.append(Figure(f"{name}: constrained / free", middle, "<=", 1.5 if quick else 1.25, spread=spread))
        rows += found
    progress.update(bar, description="parity")
    figures += parity()
    progress.advance(bar)
    progress.update(bar, description="enumeration")
    figures += enumerated(2 if quick else 3)
    progress.advance(bar)
    return Result("theories-cost", tuple(figures), rows)


# --- cost -------------------------------------------------------------------------------------------------------------


def warm_started(scratch: str, overrides: Mapping[str, Any]) -> Any:
    """Build a trainer whose policy has learned the theory format in a short warm start, within the full limits."""
    from steelyard import config as configs
    from steelyard.compose import build_trainer, prepare_start

    own = {
        "run.folder": scratch,
        "domain.options.kinds": ["groups", "model"],
        "domain.options.required_factors": [],
        "domain.options.limits": {},
        "domain.options.max_example_words": 200,
        "model.scratch.max_length": TOKENS + 8,
        "sampling.max_new_tokens": TOKENS,
        "sampling.tasks_per_step": 1,
        "warmstart.batch": 16,
        "warmstart.warmup_steps": 5,
    }
    return build_trainer(prepare_start(configs.load("theories", {**QUIET_RUN, **own, **overrides})))


def time_rounds(trainer: Any, rounds: int, name: str, progress: Progress, bar: Any) -> Iterator[dict[str, Cell]]:
    """Time a group under the grammar and the same number of free tokens; the first round is a discarded warm-up."""
    for number in range(rounds + 1):
        progress.update(bar, description=f"{name}, round {number}")
        task = trainer.parts.source.draw(number, 1)[0]
        samples, constrained = timed(trainer, task, number)
        with unconstrained_with_lengths(trainer, samples):
            again, free = timed(trainer, task, number)
        if [len(one.completion_ids) for one in samples] != [len(one.completion_ids) for one in again]:
            raise RuntimeError("cannot compare sampling times: the free and constrained samples differ in length")
        tokens = sum(len(sample.completion_ids) for sample in samples)
        progress.advance(bar)
        if number:
            yield {
                "model": name,
                "start": str(task.spec["kind"]),
                "tokens": tokens,
                "longest": max(len(sample.completion_ids) for sample in samples),
                "decisions": sum(len(sample.decisions) for sample in samples),
                "constrained s": constrained,
                "free s": free,
                "ratio": constrained / free,
            }


def timed(trainer: Any, task: Task, step: int) -> tuple[list[Sample], float]:
    from steelyard.sampling.base import Decoding
    from steelyard.training.phases import requests_for, sample
    from steelyard.types import CutRule

    start = time.perf_counter()
    samples = sample(trainer.parts.sampler, requests_for([task], step, GROUP), Decoding(CutRule(), TOKENS, "stored"))
    return samples, time.perf_counter() - start


@contextmanager
def unconstrained_with_lengths(trainer: Any, samples: Sequence[Sample]) -> Iterator[None]:
    """Inside the context, remove the constraint and let each row run exactly as long as its sample."""
    from steelyard.policies.causal import CausalPolicy
    from steelyard.sampling import local
    from steelyard.sampling.partial_sample import PartialSample

    lengths: dict[SampleKey, int] = {one.key: len(one.completion_ids) for one in samples}

    class FixedLengthRow(PartialSample):
        @property
        def left(self) -> int:
            return lengths[self.key] - len(self.tokens)

    class Endless(CausalPolicy):
        end_ids = ()  # type: ignore[assignment]

    policy = trainer.policy
    kept = policy.constraint, policy.__class__
    policy.constraint, policy.__class__, local.PartialSample = None, Endless, FixedLengthRow  # type: ignore[misc]
    try:
        yield
    finally:
        (policy.constraint, policy.__class__), local.PartialSample = kept, PartialSample  # type: ignore[misc]


# --- exactness --------------------------------------------------------------------------------------------------------


def parity() -> list[Figure]:
    """Compare log-probs with stored, recomputed and (as a control) no supports, for several truncation rules."""
    from steelyard import config as configs
    from steelyard.compose import build_trainer

    own = {
        "run.folder": tempfile.gettempdir(),
        "domain.options.kinds": ["nothing", "groups", "sector", "partial", "model"],
        "domain.options.required_factors": [],
        "domain.options.limits": {},
        "model.scratch.width": 64,
        "model.scratch.max_length": TOKENS + 8,
        "sampling.max_new_tokens": 150,
        "sampling.tasks_per_step": 5,
    }
    tables = configs.load("theories", {**QUIET_RUN, **own}).model_dump(exclude_none=True)
    del tables["warmstart"]
    trainer = build_trainer(configs.build(tables, source="theories-cost"))
    sharpen(trainer.policy, 2.0)
    gaps: list[np.ndarray] = []
    ignored: list[float] = []
    for rule in RULES:
        stored = draw(trainer, rule, 4, "stored")
        gaps.append(log_prob_gaps(trainer, stored))
        if not rule.cuts:
            replayed = with_recomputed_supports(trainer, draw(trainer, rule, 4, "recomputed"))
            gaps.append(log_prob_gaps(trainer, replayed))
        ignored.append(float(log_prob_gaps(trainer, [without_supports(sample) for sample in stored]).max()))
    return [
        Figure("parity: max |Δ log-prob|", float(np.concatenate(gaps).max()), "<=", 1e-5, "nats"),
        Figure("control: without supports, smallest max |Δ log-prob|", min(ignored), ">=", 1e-2, "nats"),
    ]


class TinyGrammar(TheoryGrammar):
    """The grammar of the tiny language."""

    def __init__(self) -> None:
        super().__init__(TINY)


def tiny_case() -> Case:
    """Build the case with every theory in the tiny language, each at most 13 words long."""
    constraint = {"kind": "automaton", "source": "benchmarks.theories.theories_cost:TinyGrammar"}
    return build_case({"vocabulary": ("theory", *TinyGrammar().alphabet())}, "theory", constraint, 14)


def enumerated(size: int) -> list[Figure]:
    """Compare the expected update, entropy and KL with the values from the list of all theories."""
    case = tiny_case()
    true = true_gradient(case)
    update = float(deviation(case, "rloo", None, size, true)["relative deviation"])
    ignored = float(deviation(case, "rloo", None, size, true, forget=True)["relative deviation"])
    (entropy, kl), (true_entropy, true_kl) = learner_entropy_and_kl(case), enumerated_entropy_and_kl(case)
    return [
        Figure(f"{len(case.sentences)} theories, rloo: deviation of the expected update", update, "<=", 1e-6),
        Figure("entropy: |Δ| from the enumerated value", abs(entropy - true_entropy), "<=", 1e-6, "nats"),
        Figure("KL: |Δ| from the enumerated value", abs(kl - true_kl), "<=", 1e-6, "nats"),
        Figure("control: deviation without supports", ignored, ">=", 1e-2),
    ]
