"""SmolLM2-135M learns to build in lines of text, and its constraint wins at least what rejection does at equal tokens.

The recipe ``bricks-text``: before anything, after the warm start and after training, the model writes for briefs that
training never asks for, once under its constraint and once free. *Valid*: nothing of the text had to be passed over.
*Stable*: what could be placed stands with its load, and all of it reaches the ground. *Success*: valid, stable, and
what the brief asks for.

After the warm start and after training the constraint is also set against BrickGPT's decoding of the same model:
rejection sampling, and rollback of what does not stand under the brief's load. All of them draw at BrickGPT's
temperature and get the same number of tokens a brief; a brief is won if a structure within them is a success.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.progress import Progress

from benchmarks.bricks.brick_decoders import CONSTRAINT, REJECTION, Bench, Contest, Look, Seen
from benchmarks.bricks.rejection import BRICKGPT
from benchmarks.bricks.token_budget import per_thousand, won_within
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.smollm import model_folder
from benchmarks.framework.training_runs import UNATTENDED

GAIN = 0.05
BASE, WARM, TRAINED = "base model", "warm start", "trained"
COLUMNS = ("stage", "decoding", "valid", "stable", "success", "tokens a try", "successes per 1,000 tokens")


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    minutes: float
    """Of GRPO at most; the warm start takes what its examples take."""
    samples: int
    """For each brief and look."""
    budget: int
    """Tokens for each brief in the comparison."""
    briefs: int | None = None
    """How many of the briefs that training never asks for; all if left out."""
    overrides: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def budgets(self) -> tuple[int, int]:
        return self.budget // 2, self.budget


FULL = Size(minutes=30.0, samples=4, budget=256)
QUICK = Size(
    minutes=0.05,
    samples=1,
    budget=24,
    briefs=3,
    overrides={
        "model.dtype": "float32",  # which any processor multiplies fast
        "domain.options.kinds": ["tower"],
        "domain.options.hardest": 4.0,
        "domain.options.most": 6,
        "sampling.max_new_tokens": 73,
        "sampling.tasks_per_step": 1,
        "sampling.group_size": 4,
        "warmstart.examples": 32,
        "warmstart.batch": 8,
        "warmstart.warmup_steps": 1,
    },
)
LOSS = 1.0
"""Nats a token that even a quick warm start comes below."""


@dataclass(frozen=True)
class Study:
    """All that was found in one run."""

    looks: list[Look]
    contests: list[Contest]
    loss: float
    """At the end of the warm start, in nats a token."""
    steps: int
    minutes: dict[str, float]

    def look(self, stage: str, decoding: str) -> Look:
        return next(look for look in self.looks if (look.stage, look.decoding) == (stage, decoding))

    def contest(self, stage: str, decoding: str) -> Contest:
        return next(found for found in self.contests if (found.stage, found.decoding) == (stage, decoding))


Tell = Callable[[str], None]


def measure(quick: bool, progress: Progress) -> Result:
    """Quick: a few updates and a step on small towers; what must hold of any model has a bar, and the loss."""
    size = QUICK if quick else FULL
    task = progress.add_task("bricks-text", total=1)
    with tempfile.TemporaryDirectory() as scratch:
        found = study(size, scratch, lambda text: progress.update(task, description=text))
    progress.advance(task)
    figures = quick_figures(found) if quick else full_figures(found, size.budget)
    return Result("bricks-text", figures, table(found, size.budgets), note(found, size))


def full_figures(found: Study, budget: int) -> tuple[Figure, ...]:
    gain = found.look(TRAINED, CONSTRAINT).mean("success") - found.look(WARM, CONSTRAINT).mean("success")
    lead = min(
        found.contest(stage, CONSTRAINT).won(budget) - found.contest(stage, REJECTION).won(budget)
        for stage in (WARM, TRAINED)
    )
    return (
        valid_figure(found),
        Figure("gain of success by training", gain, ">=", GAIN),
        Figure("won at equal tokens, constraint - rejection, smaller of two stages", lead, ">=", 0.0),
    )


def quick_figures(found: Study) -> tuple[Figure, ...]:
    return valid_figure(found), Figure("loss of the warm start", found.loss, "<=", LOSS, "nat a token")


def valid_figure(found: Study) -> Figure:
    shares = [look.mean("valid") for look in found.looks if look.decoding == CONSTRAINT]
    return Figure("valid under the constraint, smallest share", min(shares), ">=", 1.0)


def table(found: Study, budgets: Sequence[int]) -> list[dict[str, Cell]]:
    """A row for each look and each contest, all with the same columns; means with 95% intervals over briefs."""
    won = [f"won in {budget} tokens" for budget in budgets]
    empty: dict[str, Cell] = dict.fromkeys((*COLUMNS, *won), "")
    rows: list[dict[str, Cell]] = []
    for look in found.looks:
        shares = {name: with_interval(look.share(name)) for name in Seen._fields}
        rows.append({**empty, "stage": look.stage, "decoding": look.decoding, **shares, "tokens a try": look.tokens})
    for contest in found.contests:
        first = [float(tries[0].success) for tries in contest.tries]
        every = [one.tokens for tries in contest.tries for one in tries]
        named: dict[str, Cell] = {
            "stage": contest.stage,
            "decoding": f"{contest.decoding}, temperature {BRICKGPT.temperature}",
            "success": with_interval(first),
            "tokens a try": sum(every) / len(every),
            "successes per 1,000 tokens": per_thousand(contest.tries),
        }
        shares = {
            name: with_interval(won_within(contest.tries, budget)) for name, budget in zip(won, budgets, strict=True)
        }
        rows.append({**empty, **named, **shares})
    return rows


def with_interval(values: Sequence[float]) -> str:
    from steelyard.algorithms.passk import bootstrap_interval

    found = bootstrap_interval(values)
    return f"{found.mean:.3f} ({found.low:.3f}–{found.high:.3f})"


def note(found: Study, size: Size) -> str:
    minutes = ", ".join(f"{name} {spent:.1f}" for name, spent in found.minutes.items())
    kinds = "; ".join(
        f"{look.stage} {', '.join(f'{kind} {share:.2f}' for kind, share in look.by_kind().items())}"
        for look in found.looks
        if look.decoding == CONSTRAINT
    )
    return (
        f"One seed and {len(found.looks[0].seen)} briefs: what two cores afford. Minutes: {minutes}. The warm start "
        f"ended at {found.loss:.3f} nat a token; training took {found.steps} steps. Success under the constraint by "
        f"kind: {kinds}. Rows with successes per 1,000 tokens are the comparison at equal tokens, {size.budget} a "
        f"brief; their success is that of the first try."
    )


def study(size: Size, scratch: str, tell: Tell) -> Study:
    """One run from the base model to the end of training, with looks on the way."""
    from steelyard.compose import build_policy, build_trainer, tasks_of_split
    from steelyard.compose.warmstart import beginning_with, make_warm_start, own_folder

    config = configured(scratch, size.overrides)
    unseen = [*tasks_of_split(config, "validation"), *tasks_of_split(config, "held_out")]
    bench, minutes = Bench(config, unseen[: size.briefs], tell), dict[str, float]()
    tell("loading the model")
    policy = build_policy(config)
    with timed(minutes, "looks"):
        looks = list(bench.looks(BASE, policy, size.samples))
    tell("warm start")
    with timed(minutes, "warm start"):
        loss = make_warm_start(config, config.warmstart, policy, own_folder(config))
    trainer = build_trainer(beginning_with(config, own_folder(config)))
    del policy
    contests: list[Contest] = []

    def judge(stage: str) -> None:
        with timed(minutes, "looks"):
            looks.extend(bench.looks(stage, trainer.policy, size.samples))
        with timed(minutes, "equal tokens"):
            contests.extend(bench.contests(stage, trainer.policy, size.budget))

    try:
        judge(WARM)
        with timed(minutes, "training"):
            train(trainer, size.minutes, tell)
        judge(TRAINED)
    finally:
        trainer.close()
    return Study(looks, contests, loss, trainer.step, minutes)


def configured(scratch: str, overrides: Mapping[str, Any]) -> Any:
    """The shipped recipe, without what the benchmark does itself."""
    from steelyard import config as configs

    own = {"run.folder": scratch, "model.path": str(model_folder())}
    return configs.load("bricks-text", {**UNATTENDED, **own, **overrides})


def train(trainer: Any, minutes: float, tell: Tell) -> None:
    """Steps until those of the recipe or the minutes are over, at least one."""
    began = time.perf_counter()
    while trainer.step == 0 or (trainer.step < trainer.settings.steps and time.perf_counter() - began < 60 * minutes):
        metrics = trainer.train_step()
        tell(f"step {trainer.step}, reward {metrics['reward/mean']:.2f}, success {metrics['success']:.2f}")


@contextmanager
def timed(minutes: dict[str, float], name: str) -> Iterator[None]:
    began = time.perf_counter()
    try:
        yield
    finally:
        minutes[name] = minutes.get(name, 0.0) + (time.perf_counter() - began) / 60
