"""A run that a benchmark watches: a warm start, then minutes of training, looked at on the way, and on held-out tasks
before and after.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.framework.parallel_runs import Tell
from benchmarks.framework.result import Cell
from steelyard.domains.base import Split
from steelyard.training.evaluation import Evaluation

UNATTENDED = {
    "model.device": "cpu",
    "evaluate.every": 0,
    "checkpoint.every": 0,
    "tracking.console": False,
    "tracking.samples_every": 0,
}
"""What a benchmark does itself, or does not want."""


@dataclass(frozen=True)
class Watch:
    """How a run is looked at."""

    held_out: int
    """Samples of each held-out task."""
    samples: int
    """Samples of each task that is looked at on the way."""
    every: int
    """Steps from one look to the next."""
    split: Split = "validation"
    """What is looked at on the way; it decides nothing."""


@dataclass(frozen=True)
class Look:
    """What the watched tasks came to at a step; ``metrics`` are those of that step."""

    step: int
    minutes: float
    found: Evaluation
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])

    def row(self, seed: int, success: str = "validation success") -> dict[str, Cell]:
        """A point of a curve."""
        return {
            "seed": seed,
            "step": self.step,
            "minutes": self.minutes,
            success: self.found.success.mean,
        }


@dataclass(frozen=True)
class Watched:
    """Held-out tasks before and after, and the looks between."""

    before: Evaluation
    after: Evaluation
    looks: list[Look]
    warm_minutes: float


def configured(recipe: str, seed: int, scratch: str, overrides: Mapping[str, Any]) -> Any:
    """A shipped recipe, without what the benchmark does itself."""
    from steelyard import config as configs

    own = {"run.folder": scratch, "run.seed": seed, "domain.options.seed": seed}
    return configs.load(recipe, {**UNATTENDED, **own, **overrides})


def watched_run(config: Any, watch: Watch, minutes: float, tell: Tell) -> Watched:
    """Warm start, then training until the steps of the recipe or the minutes are over."""
    from steelyard.compose import begun, build_evaluator, build_trainer, tasks_of_split

    tell(0.0, "warm start")
    began = time.perf_counter()
    started = begun(config)
    warm_minutes = (time.perf_counter() - began) / 60
    trainer = build_trainer(started)
    parts = (config, trainer.parts.sampler, trainer.parts.pool)
    judged = build_evaluator(*parts, tasks_of_split(config, "held_out"), samples=watch.held_out)
    watched = build_evaluator(*parts, tasks_of_split(config, watch.split), samples=watch.samples)
    try:
        before = judged.run()
        looks = list(training(trainer, watched, watch, minutes, tell))
        return Watched(before, judged.run(), looks, warm_minutes)
    finally:
        trainer.close()


def training(trainer: Any, watched: Any, watch: Watch, minutes: float, tell: Tell) -> Iterator[Look]:
    """Looks over time; looking is not counted as training."""
    spent, look = 0.0, Look(trainer.step, 0.0, watched.run())
    yield look

    def over() -> bool:
        return spent >= 60 * minutes or trainer.step >= trainer.settings.steps

    while not over():
        metrics: Mapping[str, float] = {}
        for _ in range(watch.every):
            began = time.perf_counter()
            metrics = trainer.train_step()
            spent += time.perf_counter() - began
            tell(spent / 60, f"step {trainer.step}, success {look.found.success.mean:.2f}")
            if over():
                break
        look = Look(trainer.step, spent / 60, watched.run(), metrics)
        yield look
