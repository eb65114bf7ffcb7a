"""After a warm start, a few steps under a constraint on small tasks of a domain raise the training reward."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steelyard import config as configs
from steelyard.compose import NOTHING_SUPPLIED
from steelyard.run import run
from steelyard.tracking import read_metrics

SIZES: dict[str, Any] = {
    "model.scratch.width": 64,
    "model.scratch.heads": 2,
    "model.scratch.layers": 2,
    "model.device": "cpu",
    "domain.options.required_factors": [],
    "domain.options.max_example_words": 50,
    "sampling.max_new_tokens": 60,
    "domain.options.limits.groups": 2,
    "domain.options.limits.largest": 6,
    "domain.options.limits.multiplets": 5,
    "warmstart.examples": 320,
    "warmstart.batch": 16,
    "warmstart.warmup_steps": 1,
    "sampling.tasks_per_step": 2,
    "sampling.group_size": 16,
    "verify.pool": "inline",
    "optimiser.warmup_steps": 0,
    "optimiser.lr": 3e-3,
    "optimiser.minibatches": 2,
    "run.steps": 40,
    "evaluate.every": 0,
    "checkpoint.every": 0,
    "tracking.samples_every": 0,
    "tracking.console": False,
}


def test_the_reward_of_theories_rises(tmp_path: Path) -> None:
    config = configs.load("theories", {**SIZES, "run.folder": str(tmp_path)})
    run(config, NOTHING_SUPPLIED, resume=False)
    reward = [float(row["reward/mean"]) for row in read_metrics(tmp_path / config.run.name / "metrics.jsonl")]
    third = len(reward) // 3
    assert welch(reward[:third], reward[-third:]) > 2, reward


def test_the_statistic_distinguishes_constant_from_rising_rewards() -> None:
    assert welch([0.1, 0.3, 0.2, 0.2], [0.2, 0.1, 0.3, 0.25]) < 2
    assert welch([0.1, 0.3, 0.2, 0.2], [0.5, 0.6, 0.4, 0.5]) > 2


def welch(before: Sequence[float], after: Sequence[float]) -> float:
    """Return Welch's t: the difference of two means divided by its standard error."""
    variances = [statistics.variance(values) / len(values) for values in (before, after)]
    return (statistics.fmean(after) - statistics.fmean(before)) / math.sqrt(sum(variances))
