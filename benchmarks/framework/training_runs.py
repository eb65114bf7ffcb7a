"""Training runs for the learning benchmarks: warm start, training for a number of minutes, and evaluations.

Held-out tasks are evaluated before and after training, and a second set of tasks every few steps.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.framework.parallel_runs import ReportProgress
from benchmarks.framework.result import Cell
from steelyard.domains.base import Split
from steelyard.training.evaluation import Evaluation

QUIET_RUN = {
    "model.device": "cpu",
    "evaluate.every": 0,
    "checkpoint.every": 0,
    "tracking.console": False,
    "tracking.samples_every": 0,
}
"""Turns off features that a benchmark handles itself (evaluation) or does not need (checkpoints, tracking)."""


@dataclass(frozen=True)
class EvaluationPlan:
    """Evaluation settings."""

    held_out: int
    """Samples per held-out task."""
    samples: int
    """Samples per task in the evaluations during training."""
    every: int
    """Steps between evaluations."""
    split: Split = "validation"
    """Tasks evaluated during training; no decision depends on the results."""


@dataclass(frozen=True)
class CurvePoint:
    """An evaluation during training, with the metrics of its step."""

    step: int
    minutes: float
    evaluation: Evaluation
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])

    def row(self, seed: int, success: str = "validation success") -> dict[str, Cell]:
        """Return a row of the details table."""
        return {
            "seed": seed,
            "step": self.step,
            "minutes": self.minutes,
            success: self.evaluation.success.mean,
        }


@dataclass(frozen=True)
class TrainingOutcome:
    """Held-out evaluations before and after training, and the curve between them."""

    before: Evaluation
    after: Evaluation
    curve: list[CurvePoint]
    warm_minutes: float


def load_recipe(recipe: str, seed: int, scratch: str, overrides: Mapping[str, Any]) -> Any:
    """Load a shipped recipe for a run in ``scratch``, with ``QUIET_RUN`` and the overrides."""
    from steelyard import config as configs

    own = {"run.folder": scratch, "run.seed": seed, "domain.options.seed": seed}
    return configs.load(recipe, {**QUIET_RUN, **own, **overrides})


def train_and_evaluate(
    config: Any, plan: EvaluationPlan, minutes: float, report_progress: ReportProgress
) -> TrainingOutcome:
    """Warm-start the policy, then train until the recipe's last step or until ``minutes`` have passed."""
    from steelyard.compose import build_evaluator, build_trainer, prepare_start, tasks_of_split

    report_progress(0.0, "warm start")
    start = time.perf_counter()
    started = prepare_start(config)
    warm_minutes = (time.perf_counter() - start) / 60
    trainer = build_trainer(started)
    parts = (config, trainer.parts.sampler, trainer.parts.pool)
    held_out = build_evaluator(*parts, tasks_of_split(config, "held_out"), samples=plan.held_out)
    during = build_evaluator(*parts, tasks_of_split(config, plan.split), samples=plan.samples)
    try:
        before = held_out.run()
        curve = list(train_with_evaluations(trainer, during, plan, minutes, report_progress))
        return TrainingOutcome(before, held_out.run(), curve, warm_minutes)
    finally:
        trainer.close()


def train_with_evaluations(
    trainer: Any, evaluator: Any, plan: EvaluationPlan, minutes: float, report_progress: ReportProgress
) -> Iterator[CurvePoint]:
    """Train and yield an evaluation every few steps; evaluation time does not count as training time."""
    spent, point = 0.0, CurvePoint(trainer.step, 0.0, evaluator.run())
    yield point

    def finished() -> bool:
        return spent >= 60 * minutes or trainer.step >= trainer.settings.steps

    while not finished():
        metrics: Mapping[str, float] = {}
        for _ in range(plan.every):
            start = time.perf_counter()
            metrics = trainer.train_step()
            spent += time.perf_counter() - start
            report_progress(spent / 60, f"step {trainer.step}, success {point.evaluation.success.mean:.2f}")
            if finished():
                break
        point = CurvePoint(trainer.step, spent / 60, evaluator.run(), metrics)
        yield point
