"""Held-out functions with holes come to be filled so that judge and parser approve, and nobody is gamed.

The judge was trained on fills of the warm start and can be led astray. So what it says is held against those that
training never asked: a second judge (another warm start, other data, another head) and the perplexity under a causal
character model. A run without KL to the warm start, rewarded by the judge alone, shows how gaming looks.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import Progress

from benchmarks.abreast import abreast
from benchmarks.result import Cell, Figure, Result
from benchmarks.watched import UNATTENDED, Tell
from steelyard.algorithms.passk import Interval, bootstrap_interval
from steelyard.types import Group, SampleKey, Task

SEEDS = (0, 1, 2)
MINUTES = 45.0
LOOK_EVERY = 25
TASKS = 400
OTHER = 100
"""The seed of everything that the second judge and the causal model are made of."""
READER: dict[str, Any] = {"layers": 4, "width": 128, "heads": 4, "kv_heads": 2, "max_length": 260}
READER_UPDATES = 400
GAMED: dict[str, Any] = {
    "loss.kl.coefficient": 0.0,
    "domain.options.weights": {"exact": 0.0},
    "optimiser.lr": 1e-3,
    "optimiser.schedule": "constant",
}
"""The judge alone, and nothing that holds the policy near its start."""
WORSE = 0.02
"""By how much the second judge may fall, and the perplexity rise as a share, and still count as no worse."""


@dataclass(frozen=True)
class Look:
    """What held-out functions came to: each with its 95% interval over functions."""

    judge: Interval
    parses: Interval
    second: Interval
    surprise: Interval
    """Nats a character under the causal model."""
    recovered: float
    distinct: float

    @property
    def perplexity(self) -> float:
        return math.exp(self.surprise.mean)


@dataclass(frozen=True)
class Learnt:
    """One run before and after."""

    name: str
    before: Look
    after: Look
    minutes: float
    steps: int
    gamed: bool = False

    def row(self) -> dict[str, Cell]:
        pairs: dict[str, Cell] = {"run": self.name, "steps": self.steps, "minutes": self.minutes}
        for name in ("judge", "parses", "second"):
            for when, look in (("before", self.before), ("after", self.after)):
                found: Interval = getattr(look, name)
                pairs[f"{name} {when}"] = f"{found.mean:.3f} ({found.low:.3f}–{found.high:.3f})"
        return pairs | {
            "perplexity before": self.before.perplexity,
            "perplexity after": self.after.perplexity,
            "recovered before": self.before.recovered,
            "recovered after": self.after.recovered,
            "distinct after": self.after.distinct,
        }


class Witnesses:
    """Those who judge and were never learnt from."""

    def __init__(self, folder: Path) -> None:
        from steelyard.policies.judge import ClassifierJudge
        from steelyard.policies.loading import PolicyOptions, pretrained_policy

        self.second = ClassifierJudge(str(folder / "judge"), reads_prompt=False, device="cpu")
        self.reader: Any = pretrained_policy(str(folder / "reader"), PolicyOptions(device="cpu"))

    def look(self, groups: Sequence[Group]) -> Look:
        from steelyard.verification import Item

        items = [Item(group.task, sample, 1) for group in groups for sample in group.samples]
        parts = [verdict.parts for group in groups for verdict in group.verdicts]
        batches = [items[at : at + 32] for at in range(0, len(items), 32)]
        second = [float(score or 0.0) for batch in batches for score in self.second.scores(batch)]
        surprise = self.surprise([item.sample.text for item in items])
        texts = {(item.task.id, item.sample.text) for item in items}
        return Look(
            judge=bootstrap_interval([part["judge"] for part in parts]),
            parses=bootstrap_interval(
                [float(part.get("program/parses", parsed(item))) for part, item in _pairs(parts, items)]
            ),
            second=bootstrap_interval(second),
            surprise=bootstrap_interval(surprise),
            recovered=float(np.mean([part["program/recovered"] for part in parts])),
            distinct=len(texts) / len(items),
        )

    @torch.no_grad()
    def surprise(self, texts: Sequence[str]) -> list[float]:
        """Nats a character of each text."""
        self.reader.train(False)
        found: list[float] = []
        for at in range(0, len(texts), 32):
            samples = [self.reader.given(Task("text", ""), text, SampleKey(0, 0, 0, 0)) for text in texts[at : at + 32]]
            batch = self.reader.collate(samples)
            logp_N = self.reader.evaluate(batch).logp_N
            total_M = torch.zeros(len(samples), dtype=logp_N.dtype).index_add(0, batch.sample_N, logp_N)
            found += [-float(total) / len(sample.decisions) for total, sample in zip(total_M, samples, strict=True)]
        return found


def parsed(item: Any) -> bool:
    from steelyard.domains.infill.reward import parses

    return parses(item.sample.text)


def _pairs(parts: Sequence[Any], items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(parts, items, strict=True)


def measure(quick: bool, progress: Progress) -> Result:
    """Quick: short functions, a small model, short training; judge and parser together have to have risen."""
    if quick:
        return _quick(progress)
    bar = progress.add_task("the second judge and the causal model", total=1)
    with tempfile.TemporaryDirectory() as scratch:
        witnesses = make_witnesses(scratch)
        progress.advance(bar)
        asked = {f"seed {seed}": Asked(seed, witnesses, gamed=seed == SEEDS[0]) for seed in SEEDS}
        runs: list[Learnt] = []
        for made in abreast(learn, asked, progress, MINUTES):
            runs += made
            for run in made:
                progress.console.print(run.row())
    fair = [run for run in runs if not run.gamed]
    (gamed,) = [run for run in runs if run.gamed]
    return Result("infill-learn", figures(fair, gamed), [run.row() for run in (*fair, gamed)], note(gamed))


@dataclass(frozen=True)
class Asked:
    """A seed's run to be made, and from the same start, if ``gamed``, another one without what holds it back."""

    seed: int
    witnesses: str
    gamed: bool = False


def learn(asked: Asked, tell: Tell) -> list[Learnt]:
    """Warm start and judge; then, for each run: a look, training until its steps or minutes are over, another look."""
    from steelyard.compose import begun

    witnesses, made = Witnesses(Path(asked.witnesses)), list[Learnt]()
    with tempfile.TemporaryDirectory() as scratch:
        tell(0.0, "warm start and judge")
        started = begun(configured(asked.seed, scratch, "own", {}))
        made.append(learnt(f"seed {asked.seed}", started, witnesses, tell, gamed=False))
        if asked.gamed:
            name = f"seed {asked.seed}, the judge alone, no KL"
            made.append(learnt(name, _changed(started, GAMED), witnesses, tell, gamed=True))
    return made


def learnt(name: str, config: Any, witnesses: Witnesses, tell: Tell, *, gamed: bool) -> Learnt:
    from steelyard.compose import build_evaluator, build_trainer, tasks_of_split

    trainer = build_trainer(config)
    try:
        judged = build_evaluator(
            config, trainer.sampler, trainer.pool, tasks_of_split(config, "held_out", TASKS), samples=1
        )
        before = witnesses.look(judged.run().groups)
        spent = train(trainer, MINUTES, tell)
        return Learnt(name, before, witnesses.look(judged.run().groups), spent / 60, trainer.step, gamed)
    finally:
        trainer.close()


def make_witnesses(scratch: str) -> str:
    """The folder of a second judge, and of a causal model beside it, made of other examples than any run's own."""
    from steelyard.compose import begun

    config = configured(OTHER, scratch, "other", {})
    begun(config)
    folder = Path(scratch) / "other"
    reader_of(config, OTHER).save_pretrained(folder / "reader")
    return str(folder)


def train(trainer: Any, minutes: float, tell: Tell) -> float:
    """Steps until the minutes or the run's steps are over; gives the seconds."""
    spent = 0.0
    while spent < 60 * minutes and trainer.step < trainer.plan.steps:
        began = time.perf_counter()
        metrics = trainer.train_step()
        spent += time.perf_counter() - began
        parts = {key: metrics.get(f"parts/{key}/mean", math.nan) for key in ("judge", "program/parses")}
        said = ", ".join(f"{key} {value:.3f}" for key, value in parts.items())
        tell(spent / 60, f"step {trainer.step}, {said}, KL {metrics.get('kl', math.nan):.3f}")
    return spent


def configured(seed: int, scratch: str, name: str, sizes: Mapping[str, Any]) -> Any:
    """The shipped recipe, without what the benchmark does itself."""
    from steelyard import config as configs

    own = {"run.folder": scratch, "run.name": name, "run.seed": seed, "domain.options.seed": seed, "judge.seed": seed}
    return configs.load("infill", {**UNATTENDED, **own, **sizes})


def _changed(config: Any, changes: Mapping[str, Any]) -> Any:
    from steelyard import config as configs
    from steelyard.config.overrides import apply_overrides

    return configs.build(apply_overrides(config.model_dump(exclude_none=True), dict(changes)), source="infill-learn")


def reader_of(config: Any, seed: int) -> Any:
    """A causal model of characters, trained on the training texts as they are."""
    from steelyard.algorithms.objective import Objective
    from steelyard.algorithms.schedules import Schedule
    from steelyard.algorithms.surrogates import surrogate
    from steelyard.compose import build_domain
    from steelyard.policies.loading import PolicyOptions, from_scratch_policy
    from steelyard.policies.scratch import Architecture
    from steelyard.training.learner import Coefficients, Learner, UpdateRule
    from steelyard.training.optimisers import build_optimiser
    from steelyard.training.warmstart import warm_start

    domain: Any = build_domain(config)
    options = PolicyOptions(device="cpu", seed=seed)
    policy = from_scratch_policy(Architecture(**READER), domain.vocabulary(), options, spaced=False)
    nothing = Schedule("constant", 0.0)
    learner = Learner(
        policy,
        build_optimiser("adamw", [parameter for _, parameter in policy.trainable()], lr=2e-3),
        Objective(surrogate("reinforce")),
        Coefficients(Schedule("cosine", 2e-3, 2e-4, READER_UPDATES, 20), nothing, nothing),
        UpdateRule(microbatch_tokens=16_384, aggregation="token_mean"),
    )
    texts = ((Task("text", ""), text) for _, text in domain.examples(seed=seed))
    for _ in warm_start(learner, texts, steps=READER_UPDATES, batch=32):
        pass
    return policy


def figures(runs: Sequence[Learnt], gamed: Learnt) -> tuple[Figure, ...]:
    apart = [
        min(run.after.judge.low - run.before.judge.high, run.after.parses.low - run.before.parses.high) for run in runs
    ]
    fallen = [run.before.second.mean - run.after.second.mean for run in runs]
    risen = [run.after.perplexity / run.before.perplexity - 1 for run in runs]
    revealed = max(
        gamed.before.second.mean - gamed.after.second.mean, gamed.after.perplexity / gamed.before.perplexity - 1
    )
    return (
        Figure("gap between the intervals of judge and parser, before and after", min(apart), ">=", 0.0),
        Figure("fall of the second judge", max(fallen), "<=", WORSE),
        Figure("rise of the perplexity", max(risen), "<=", WORSE),
        Figure("the gamed run: rise of its judge", gamed.after.judge.mean - gamed.before.judge.mean, ">=", 0.05),
        Figure("the gamed run: fall of the second judge or rise of the perplexity", revealed, ">=", 0.1),
    )


def note(gamed: Learnt) -> str:
    return (
        f"Without KL and with the judge alone, its score goes from {gamed.before.judge.mean:.3f} to "
        f"{gamed.after.judge.mean:.3f}, while the second judge goes from {gamed.before.second.mean:.3f} to "
        f"{gamed.after.second.mean:.3f}, the perplexity from {gamed.before.perplexity:.2f} to "
        f"{gamed.after.perplexity:.2f} and the share that parses from {gamed.before.parses.mean:.3f} to "
        f"{gamed.after.parses.mean:.3f}: the first judge alone would not have told."
    )


SMALL: dict[str, Any] = {
    "model.scratch.layers": 2,
    "model.scratch.width": 64,
    "model.scratch.heads": 4,
    "domain.options.longest": 80,
    "warmstart.examples": 4800,
    "warmstart.batch": 32,
    "warmstart.lr": 4e-3,
    "warmstart.warmup_steps": 10,
    "judge.examples": 1280,
    "judge.lr": 1e-3,
    "judge.warmup_steps": 5,
    "sampling.tasks_per_step": 8,
    "sampling.group_size": 8,
    "optimiser.lr": 1.5e-3,
    "run.steps": 40,
}
"""The quick form's sizes."""


def _quick(progress: Progress) -> Result:
    from steelyard.compose import begun, build_evaluator, build_trainer, tasks_of_split

    task = progress.add_task("infill-learn", total=1)
    with tempfile.TemporaryDirectory() as scratch:
        config = configured(0, scratch, "own", SMALL)
        trainer = build_trainer(begun(config))
        try:
            judged = build_evaluator(config, trainer.sampler, trainer.pool, tasks_of_split(config, "held_out", 100))
            before = judged.run()
            train(trainer, MINUTES, lambda _, text: progress.update(task, description=text))
            after = judged.run()
        finally:
            trainer.close()
    progress.advance(task)
    rows: list[dict[str, Cell]] = [
        {"when": when, "reward": found.reward.mean, "parses": found.success.mean, "distinct": found.distinct}
        for when, found in (("before", before), ("after", after))
    ]
    gain = after.reward.mean - before.reward.mean
    return Result("infill-learn", (Figure("gain of held-out reward", gain, ">=", 0.05),), rows)
