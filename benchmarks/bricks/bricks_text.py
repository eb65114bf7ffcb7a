"""SmolLM2-135M learns to write brick structures; its constraint solves as many briefs as rejection at equal token cost.

This benchmark runs the ``bricks-text`` recipe. The base model, the warm-started model and the trained model write
structures for briefs that never occur in training, with and without the constraint. An output is *valid* if no part of
it was skipped, *stable* if the placed bricks stand under the load and are all connected to the ground, and a *success*
if it is valid, stable and fulfils the brief.

The warm-started and the trained model are also decoded as in BrickGPT: rejection sampling, alone and with rollback of
bricks that fail under the brief's load. All decoders use BrickGPT's temperature and the same number of tokens per
brief. A brief is solved if a structure within these tokens is a success.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.progress import Progress

from benchmarks.bricks.brick_decoders import (
    CONSTRAINT,
    REJECTION,
    BudgetRun,
    DecodingEvaluator,
    StageOutcomes,
    TextOutcome,
)
from benchmarks.bricks.rejection import BRICKGPT
from benchmarks.bricks.token_budget import per_thousand, solved_within
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.smollm import model_folder
from benchmarks.framework.training_runs import QUIET_RUN

GAIN = 0.05
BASE, WARM, TRAINED = "base model", "warm start", "trained"
COLUMNS = ("stage", "decoding", "valid", "stable", "success", "tokens per attempt", "successes per 1,000 tokens")


@dataclass(frozen=True)
class Size:
    """How much to train, sample and compare."""

    minutes: float
    """Time limit for GRPO; the warm start takes as long as its examples need."""
    samples: int
    """Samples per brief in each evaluation."""
    budget: int
    """Tokens per brief in the comparison."""
    briefs: int | None = None
    """Number of briefs to evaluate; None means all."""
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
        "model.dtype": "float32",  # fast on any CPU
        "domain.options.kinds": ["tower"],
        "domain.options.max_difficulty": 4.0,
        "domain.options.max_bricks": 6,
        "sampling.max_new_tokens": 73,
        "sampling.tasks_per_step": 1,
        "sampling.group_size": 4,
        "warmstart.examples": 32,
        "warmstart.batch": 8,
        "warmstart.warmup_steps": 1,
    },
)
LOSS = 1.0
"""Loss in nats per token that even a quick warm start must reach."""


@dataclass(frozen=True)
class Study:
    """The results of one run."""

    evaluations: list[StageOutcomes]
    budget_runs: list[BudgetRun]
    loss: float
    """Loss at the end of the warm start, in nats per token."""
    steps: int
    minutes: dict[str, float]

    def evaluation(self, stage: str, decoding: str) -> StageOutcomes:
        return next(found for found in self.evaluations if (found.stage, found.decoding) == (stage, decoding))

    def budget_run(self, stage: str, decoding: str) -> BudgetRun:
        return next(found for found in self.budget_runs if (found.stage, found.decoding) == (stage, decoding))


ShowStatus = Callable[[str], None]


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version takes one step on small towers and checks only validity and loss."""
    size = QUICK if quick else FULL
    task = progress.add_task("bricks-text", total=1)
    with tempfile.TemporaryDirectory() as scratch:
        found = study(size, scratch, lambda text: progress.update(task, description=text))
    progress.advance(task)
    figures = quick_figures(found) if quick else full_figures(found, size.budget)
    return Result("bricks-text", figures, table(found, size.budgets), note(found, size))


def full_figures(found: Study, budget: int) -> tuple[Figure, ...]:
    trained, warm = (found.evaluation(stage, CONSTRAINT).mean("success") for stage in (TRAINED, WARM))
    lead = min(
        found.budget_run(stage, CONSTRAINT).solved(budget) - found.budget_run(stage, REJECTION).solved(budget)
        for stage in (WARM, TRAINED)
    )
    return (
        valid_figure(found),
        Figure("gain in success by training", trained - warm, ">=", GAIN),
        Figure("solved at equal tokens, constraint minus rejection, smaller of two stages", lead, ">=", 0.0),
    )


def quick_figures(found: Study) -> tuple[Figure, ...]:
    return valid_figure(found), Figure("loss of the warm start", found.loss, "<=", LOSS, "nats per token")


def valid_figure(found: Study) -> Figure:
    shares = [one.mean("valid") for one in found.evaluations if one.decoding == CONSTRAINT]
    return Figure("smallest share of valid texts under the constraint", min(shares), ">=", 1.0)


def table(found: Study, budgets: Sequence[int]) -> list[dict[str, Cell]]:
    """Return one row per evaluation and per budget run, with means and 95% intervals over briefs."""
    solved = [f"solved in {budget} tokens" for budget in budgets]
    empty: dict[str, Cell] = dict.fromkeys((*COLUMNS, *solved), "")
    rows: list[dict[str, Cell]] = []
    for one in found.evaluations:
        shares = {name: with_interval(one.share(name)) for name in TextOutcome._fields}
        rows.append({**empty, "stage": one.stage, "decoding": one.decoding, **shares, "tokens per attempt": one.tokens})
    for run in found.budget_runs:
        first = [float(attempts[0].success) for attempts in run.attempts]
        every = [attempt.tokens for attempts in run.attempts for attempt in attempts]
        named: dict[str, Cell] = {
            "stage": run.stage,
            "decoding": f"{run.decoding}, temperature {BRICKGPT.temperature}",
            "success": with_interval(first),
            "tokens per attempt": sum(every) / len(every),
            "successes per 1,000 tokens": per_thousand(run.attempts),
        }
        within = [with_interval(solved_within(run.attempts, budget)) for budget in budgets]
        rows.append({**empty, **named, **dict(zip(solved, within, strict=True))})
    return rows


def with_interval(values: Sequence[float]) -> str:
    from steelyard.algorithms.passk import bootstrap_interval

    found = bootstrap_interval(values)
    return f"{found.mean:.3f} ({found.low:.3f}–{found.high:.3f})"


def note(found: Study, size: Size) -> str:
    minutes = ", ".join(f"{name} {spent:.1f}" for name, spent in found.minutes.items())
    kinds = "; ".join(
        f"{one.stage} {', '.join(f'{kind} {share:.2f}' for kind, share in one.by_kind().items())}"
        for one in found.evaluations
        if one.decoding == CONSTRAINT
    )
    return (
        f"One seed and {len(found.evaluations[0].outcomes)} briefs, to fit two cores. Minutes: {minutes}. The warm "
        f"start ended at {found.loss:.3f} nats per token; training took {found.steps} steps. Success under the "
        f"constraint by kind: {kinds}. Rows with successes per 1,000 tokens are the comparison at equal tokens, "
        f"{size.budget} per brief; their success is that of the first attempt."
    )


def study(size: Size, scratch: str, show_status: ShowStatus) -> Study:
    """Run from the base model to the end of training, with evaluations at each stage."""
    from steelyard.compose import build_policy, build_trainer, tasks_of_split
    from steelyard.compose.warmstart import make_warm_start, starting_from, warm_start_folder

    config = load_bricks_text(scratch, size.overrides)
    unseen = [*tasks_of_split(config, "validation"), *tasks_of_split(config, "held_out")]
    evaluator, minutes = DecodingEvaluator(config, unseen[: size.briefs], show_status), dict[str, float]()
    show_status("loading the model")
    policy = build_policy(config)
    with timed(minutes, "evaluation"):
        evaluations = list(evaluator.evaluate(BASE, policy, size.samples))
    show_status("warm start")
    with timed(minutes, "warm start"):
        loss = make_warm_start(config, config.warmstart, policy, warm_start_folder(config))
    trainer = build_trainer(starting_from(config, warm_start_folder(config)))
    del policy
    budget_runs: list[BudgetRun] = []

    def evaluate(stage: str) -> None:
        with timed(minutes, "evaluation"):
            evaluations.extend(evaluator.evaluate(stage, trainer.policy, size.samples))
        with timed(minutes, "equal tokens"):
            budget_runs.extend(evaluator.compare_at_equal_tokens(stage, trainer.policy, size.budget))

    try:
        evaluate(WARM)
        with timed(minutes, "training"):
            train(trainer, size.minutes, show_status)
        evaluate(TRAINED)
    finally:
        trainer.close()
    return Study(evaluations, budget_runs, loss, trainer.step, minutes)


def load_bricks_text(scratch: str, overrides: Mapping[str, Any]) -> Any:
    """Load the shipped recipe with ``QUIET_RUN`` and the given overrides."""
    from steelyard import config as configs

    own = {"run.folder": scratch, "model.path": str(model_folder())}
    return configs.load("bricks-text", {**QUIET_RUN, **own, **overrides})


def train(trainer: Any, minutes: float, show_status: ShowStatus) -> None:
    """Train for at least one step, until the recipe's last step or until ``minutes`` have passed."""
    began = time.perf_counter()
    while trainer.step == 0 or (trainer.step < trainer.settings.steps and time.perf_counter() - began < 60 * minutes):
        metrics = trainer.train_step()
        show_status(f"step {trainer.step}, reward {metrics['reward/mean']:.2f}, success {metrics['success']:.2f}")


@contextmanager
def timed(minutes: dict[str, float], name: str) -> Iterator[None]:
    began = time.perf_counter()
    try:
        yield
    finally:
        minutes[name] = minutes.get(name, 0.0) + (time.perf_counter() - began) / 60
