"""A policy fine-tuned in bfloat16 learns as well as one fine-tuned in float32.

For each seed, a small policy is first trained in float32 with the shipped ``sequences`` recipe. It is then fine-tuned
from the same weights in three ways: float32, bfloat16 with stochastic rounding (the default) and bfloat16 rounded to
nearest (for comparison, without a bar). The learning rate is below half the spacing of most bfloat16 weights.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.progress import Progress

from benchmarks.framework.parallel_runs import ReportProgress, run_in_parallel
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.seeds import interval
from benchmarks.framework.training_runs import load_recipe

SEEDS, QUICK_SEEDS = (0, 1, 2, 3, 4), (0, 1)
FIRST_STEPS, STEPS = 100, 200
LR = 3e-5
SAMPLES = 8
PRECISIONS: dict[str, dict[str, Any]] = {
    "float32": {"model.dtype": "float32"},
    "bfloat16": {"model.dtype": "bfloat16", "optimiser.rounding": "stochastic"},
    "bfloat16, nearest": {"model.dtype": "bfloat16", "optimiser.rounding": "nearest"},
}
FINE_TUNING = {
    "optimiser.lr": LR,
    "optimiser.schedule": "constant",
    "optimiser.warmup_steps": 0,
    "optimiser.weight_decay": 0.0,
    "loss.entropy.coefficient": 0.0,
}


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses two seeds, so the interval is wide."""
    seeds = QUICK_SEEDS if quick else SEEDS
    jobs = {f"seed {seed}": seed for seed in seeds}
    rows: list[dict[str, Cell]] = []
    for seed, found in zip(seeds, run_in_parallel(learn, jobs, progress, 1.0), strict=True):
        rows.append({"seed": seed, **{name: round(reward, 4) for name, reward in found.items()}})
        progress.console.print(str(rows[-1]), markup=False)
    rewards = {name: [float(row[name]) for row in rows] for name in ("before", *PRECISIONS)}
    low, high = interval(rewards["float32"])
    mean = statistics.mean(rewards["bfloat16"])
    gain = statistics.mean(rewards["float32"]) - statistics.mean(rewards["before"])
    figures = (
        Figure("distance of bfloat16's mean reward from float32's 95% interval", outside(mean, low, high), "<=", 0.0),
        Figure("reward gained by fine-tuning in float32", gain, ">=", 0.02),
    )
    return Result("bfloat16-learn", figures, rows, note(rewards))


def outside(mean: float, low: float, high: float) -> float:
    """Return how far a mean lies outside an interval; 0 if it lies inside."""
    return max(low - mean, mean - high, 0.0)


def note(rewards: Mapping[str, Sequence[float]]) -> str:
    shown = "; ".join(f"{name} {statistics.mean(values):.3f}" for name, values in rewards.items())
    low, high = interval(rewards["float32"])
    return (
        f"Held-out rewards, mean over seeds: {shown}; 95% interval of float32 {low:.3f} to {high:.3f}. The model has "
        f"1.1M parameters; all of them are fine-tuned at {LR:g} for {STEPS} steps. Larger models are not measured."
    )


def learn(seed: int, report_progress: ReportProgress) -> dict[str, float]:
    """Return the held-out reward before fine-tuning and after fine-tuning in each precision."""
    with tempfile.TemporaryDirectory() as scratch:
        start = Path(scratch) / "start"
        first = load_recipe("sequences", seed, scratch, {"run.steps": FIRST_STEPS})
        rewards = {"before": train(first, start, report_progress)}
        for name, own in PRECISIONS.items():
            config = load_recipe("sequences", seed, scratch, {"run.steps": STEPS, **FINE_TUNING, **own})
            rewards[name] = train(fine_tuned_from(config, start), Path(scratch) / name, report_progress)
    return rewards


def fine_tuned_from(config: Any, start: Path) -> Any:
    """Return a configuration that starts from the weights in ``start``."""
    from steelyard.compose.warmstart import starting_from

    return starting_from(config, start)


def train(config: Any, folder: Path, report_progress: ReportProgress) -> float:
    """Train to the last step, save the model and return its held-out reward."""
    from steelyard.compose import build_evaluator, build_trainer, tasks_of_split

    with closing(build_trainer(config)) as trainer:
        while trainer.step < config.run.steps:
            reward = trainer.train_step()["reward/mean"]
            report_progress(trainer.step / config.run.steps, f"step {trainer.step}, reward {reward:.2f}")
        held_out = tasks_of_split(config, "held_out")
        found = build_evaluator(config, trainer.parts.sampler, trainer.parts.pool, held_out, samples=SAMPLES).run()
        trainer.policy.save_pretrained(folder)
    return found.reward.mean
