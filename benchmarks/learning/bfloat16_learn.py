"""Fine-tuned in bfloat16, a policy learns as well as in float32.

For each seed a small policy is trained in float32 with the shipped ``sequences`` recipe for a while. Then it is
fine-tuned at a learning rate below half the spacing of most bfloat16 weights, from the same weights, in three ways:
float32, bfloat16 with stochastic rounding (the default), bfloat16 rounded to nearest (for comparison, no bar).
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.progress import Progress

from benchmarks.framework.parallel_runs import Tell, abreast
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.seeds import interval
from benchmarks.framework.training_runs import configured

SEEDS, QUICK_SEEDS = (0, 1, 2, 3, 4), (0, 1)
FIRST_STEPS, STEPS = 100, 200
LR = 3e-5
SAMPLES = 8
WAYS: dict[str, dict[str, Any]] = {
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
    """Quick: two seeds, whose interval is wide."""
    seeds = QUICK_SEEDS if quick else SEEDS
    asked = {f"seed {seed}": seed for seed in seeds}
    rows: list[dict[str, Cell]] = []
    for seed, found in zip(seeds, abreast(learn, asked, progress, 1.0), strict=True):
        rows.append({"seed": seed, **{name: round(reward, 4) for name, reward in found.items()}})
        progress.console.print(str(rows[-1]), markup=False)
    rewards = {name: [float(row[name]) for row in rows] for name in ("before", *WAYS)}
    low, high = interval(rewards["float32"])
    mean = statistics.mean(rewards["bfloat16"])
    gain = statistics.mean(rewards["float32"]) - statistics.mean(rewards["before"])
    figures = (
        Figure("mean held-out reward in bfloat16, outside the float32 interval", outside(mean, low, high), "<=", 0.0),
        Figure("gain of fine-tuning in float32", gain, ">=", 0.02),
    )
    return Result("bfloat16-learn", figures, rows, note(rewards))


def outside(mean: float, low: float, high: float) -> float:
    """How far a mean lies outside an interval; 0: inside."""
    return max(low - mean, mean - high, 0.0)


def note(rewards: Mapping[str, Sequence[float]]) -> str:
    shown = "; ".join(f"{name} {statistics.mean(values):.3f}" for name, values in rewards.items())
    low, high = interval(rewards["float32"])
    return (
        f"Held-out rewards, mean over seeds: {shown}; 95% interval of float32 {low:.3f} to {high:.3f}. A model of 1.1M "
        f"parameters with full fine-tuning at {LR:g} for {STEPS} steps; larger models and longer runs are not shown."
    )


def learn(seed: int, tell: Tell) -> dict[str, float]:
    """Held-out reward before fine-tuning and after each way of it."""
    with tempfile.TemporaryDirectory() as scratch:
        start = Path(scratch) / "start"
        rewards = {"before": train(configured("sequences", seed, scratch, {"run.steps": FIRST_STEPS}), start, tell)}
        for name, own in WAYS.items():
            config = configured("sequences", seed, scratch, {"run.steps": STEPS, **FINE_TUNING, **own})
            rewards[name] = train(fine_tuned_from(config, start), Path(scratch) / name, tell)
    return rewards


def fine_tuned_from(config: Any, start: Path) -> Any:
    """The configuration with the weights of a folder as its start."""
    from steelyard.compose.warmstart import beginning_with

    return beginning_with(config, start)


def train(config: Any, folder: Path, tell: Tell) -> float:
    """Train to the end, save the model, and give its held-out reward."""
    from steelyard.compose import build_evaluator, build_trainer, tasks_of_split

    with closing(build_trainer(config)) as trainer:
        while trainer.step < config.run.steps:
            reward = trainer.train_step()["reward/mean"]
            tell(trainer.step / config.run.steps, f"step {trainer.step}, reward {reward:.2f}")
        held_out = tasks_of_split(config, "held_out")
        found = build_evaluator(config, trainer.parts.sampler, trainer.parts.pool, held_out, samples=SAMPLES).run()
        trainer.policy.save_pretrained(folder)
    return found.reward.mean
