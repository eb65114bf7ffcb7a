"""Sampling under the grammar of theories costs at most 25% over free sampling, and it is exact as any constraint.

A 4-layer policy after a short warm start draws groups of 64, the Standard Model's extensions among them; its free twin
draws as many tokens a row without any constraint, in turn, in one process. Beside it what the constraint suite asks of
every constraint: sampler and learner agree on each decision, and the expected update is the gradient of the expected
reward, found from the list of all theories of a tiny language.
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
from benchmarks.constraints.constraints_exact import Case, build_case, deviation, sequence_values, sums, true_gradient
from benchmarks.constraints.constraints_parity import RULES, draw, restored
from benchmarks.correctness.parity import gaps_of
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.training_runs import UNATTENDED
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
"""One multiplet of U(1) or SU(2), with a mass term or without."""
SHAPES: Mapping[str, dict[str, Any]] = {
    "width 256": {"model.scratch.width": 256, "model.scratch.heads": 8, "model.scratch.kv_heads": 4},
    "width 512": {"model.scratch.width": 512, "model.scratch.heads": 8, "model.scratch.kv_heads": 8},
}


def measure(quick: bool, progress: Progress) -> Result:
    """Quick: the smaller policy, two rounds, groups of two in the enumeration, and a wider bar for the cost."""
    figures: list[Figure] = []
    rows: list[dict[str, Cell]] = []
    rounds, examples = (2, 480) if quick else (ROUNDS, 3200)
    shapes = dict(list(SHAPES.items())[:1]) if quick else SHAPES
    bar = progress.add_task("theories-cost", total=len(shapes) * (rounds + 2) + 2)
    for name, shape in shapes.items():
        with tempfile.TemporaryDirectory() as scratch:
            progress.update(bar, description=f"{name}, warm start")
            trainer = started(scratch, {**shape, "warmstart.examples": examples})
            progress.advance(bar)
            found = list(compared(trainer, rounds, name, progress, bar))
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


# --- what it costs ----------------------------------------------------------------------------------------------------


def started(scratch: str, overrides: Mapping[str, Any]) -> Any:
    """A trainer whose policy knows by a short warm start what theories look like, within the full limits."""
    from steelyard import config as configs
    from steelyard.compose import begun, build_trainer

    own = {
        "run.folder": scratch,
        "domain.options.kinds": ["groups", "model"],
        "domain.options.containing": [],
        "domain.options.limits": {},
        "domain.options.longest_example": 200,
        "model.scratch.max_length": TOKENS + 8,
        "sampling.max_new_tokens": TOKENS,
        "sampling.tasks_per_step": 1,
        "warmstart.batch": 16,
        "warmstart.warmup_steps": 5,
    }
    return build_trainer(begun(configs.load("theories", {**UNATTENDED, **own, **overrides})))


def compared(trainer: Any, rounds: int, name: str, progress: Progress, bar: Any) -> Iterator[dict[str, Cell]]:
    """Seconds of a group under the grammar and of as many free tokens; the first round warms up and is left out."""
    for number in range(rounds + 1):
        progress.update(bar, description=f"{name}, round {number}")
        task = trainer.parts.source.draw(number, 1)[0]
        samples, constrained = timed(trainer, task, number)
        with as_long_as(trainer, samples):
            again, free = timed(trainer, task, number)
        if [len(one.completion_ids) for one in samples] != [len(one.completion_ids) for one in again]:
            raise RuntimeError("the free twin is not as long")
        tokens = sum(len(sample.completion_ids) for sample in samples)
        progress.advance(bar)
        if number:
            yield {
                "model": name,
                "beginning": str(task.spec["kind"]),
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
def as_long_as(trainer: Any, samples: Sequence[Sample]) -> Iterator[None]:
    """Within it nothing is constrained and each row runs exactly as long as its sample."""
    from steelyard.policies.causal import CausalPolicy
    from steelyard.sampling import local
    from steelyard.sampling.row import Row

    lengths: dict[SampleKey, int] = {one.key: len(one.completion_ids) for one in samples}

    class AsLong(Row):
        @property
        def left(self) -> int:
            return lengths[self.key] - len(self.tokens)

    class Endless(CausalPolicy):
        end_ids = ()  # type: ignore[assignment]

    policy = trainer.policy
    kept = policy.constraint, policy.__class__
    policy.constraint, policy.__class__, local.Row = None, Endless, AsLong  # type: ignore[misc]
    try:
        yield
    finally:
        (policy.constraint, policy.__class__), local.Row = kept, Row  # type: ignore[misc]


# --- what the constraint suite asks -----------------------------------------------------------------------------------


def parity() -> list[Figure]:
    """Stored supports and replayed ones, under several cuts; and, as a control, supports forgotten."""
    from steelyard import config as configs
    from steelyard.compose import build_trainer

    own = {
        "run.folder": tempfile.gettempdir(),
        "domain.options.kinds": ["nothing", "groups", "sector", "partial", "model"],
        "domain.options.containing": [],
        "domain.options.limits": {},
        "model.scratch.width": 64,
        "model.scratch.max_length": TOKENS + 8,
        "sampling.max_new_tokens": 150,
        "sampling.tasks_per_step": 5,
    }
    tables = configs.load("theories", {**UNATTENDED, **own}).model_dump(exclude_none=True)
    del tables["warmstart"]
    trainer = build_trainer(configs.build(tables, source="theories-cost"))
    sharpen(trainer.policy, 2.0)
    gaps: list[np.ndarray] = []
    forgotten: list[float] = []
    for rule in RULES:
        stored = draw(trainer, rule, 4, "stored")
        gaps.append(gaps_of(trainer, stored))
        if not rule.cuts:
            gaps.append(gaps_of(trainer, restored(trainer, draw(trainer, rule, 4, "replayed"))))
        forgotten.append(float(gaps_of(trainer, [without_supports(sample) for sample in stored]).max()))
    return [
        Figure("parity: max |Δ log-prob|", float(np.concatenate(gaps).max()), "<=", 1e-5, "nat"),
        Figure("control: supports forgotten, smallest of the maxima", min(forgotten), ">=", 1e-2, "nat"),
    ]


class TinyGrammar(TheoryGrammar):
    """The grammar of the tiny language."""

    def __init__(self) -> None:
        super().__init__(TINY)


def tiny_case() -> Case:
    """Every theory of the tiny language, all of 13 words or fewer."""
    constraint = {"kind": "automaton", "source": "benchmarks.theories.theories_cost:TinyGrammar"}
    return build_case({"vocabulary": ("theory", *TinyGrammar().alphabet())}, "theory", constraint, 14)


def enumerated(size: int) -> list[Figure]:
    """Expected update, entropy and KL against the values from the list of all theories."""
    case = tiny_case()
    true = true_gradient(case)
    update = float(deviation(case, "rloo", None, size, true)["relative deviation"])
    forgotten = float(deviation(case, "rloo", None, size, true, forget=True)["relative deviation"])
    (entropy, kl), (true_entropy, true_kl) = sums(case), sequence_values(case)
    return [
        Figure(f"{len(case.sentences)} theories, rloo: deviation of the expected update", update, "<=", 1e-6),
        Figure("entropy: |Δ| to the enumerated value", abs(entropy - true_entropy), "<=", 1e-6, "nat"),
        Figure("KL: |Δ| to the enumerated value", abs(kl - true_kl), "<=", 1e-6, "nat"),
        Figure("control: supports forgotten, deviation", forgotten, ">=", 1e-2),
    ]
