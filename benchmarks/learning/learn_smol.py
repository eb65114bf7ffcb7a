"""SmolLM2-135M-Instruct with LoRA 64 learns to answer in JSON under a schema: held-out success rises by 20 points.

Success is measured before and after training on the same held-out tasks, with the same random numbers. Their names and
sentence patterns never occur in training.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from rich.progress import Progress

from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.smollm import model_folder
from benchmarks.learning.person_records import check, tasks

SEEDS = (0, 1, 2)
STEPS = 10
GAIN = 20.0
MINUTES = 30.0
Changes = Mapping[str, Mapping[str, Any]]
IN_FLOAT32: Changes = {"model": {"dtype": "float32"}}
"""For quick runs: CPUs without bfloat16 instructions are several times slower in bfloat16."""


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version takes a few small steps and requires the held-out reward to rise."""
    seeds, steps, held_out = (SEEDS[:1], 3, 16) if quick else (SEEDS, STEPS, 100)
    bar = progress.add_task("learn-smol", total=len(seeds) * steps)
    tasks_per_step, changes = (2, IN_FLOAT32) if quick else (4, None)

    def advance(text: str) -> None:
        progress.update(bar, advance=1, description=text)

    rows = [learn(seed, steps, held_out, tasks_per_step, advance, changes) for seed in seeds]
    if quick:
        return Result("learn-smol", (Figure("gain in reward", float(rows[0]["reward gain"]), ">=", 0.02),), rows)
    gains = [float(row["gain"]) for row in rows]
    minutes = max(float(row["minutes"]) for row in rows)
    figures = (
        Figure("smallest gain in success", min(gains), ">=", GAIN, "points", max(gains) - min(gains)),
        Figure("longest run", minutes, "<=", MINUTES, "minutes"),
    )
    return Result("learn-smol", figures, rows)


def learn(
    seed: int,
    steps: int,
    held_out: int,
    tasks_per_step: int,
    advance: Callable[[str], None],
    changes: Changes | None = None,
) -> dict[str, Cell]:
    """Train one seed and report success before and after, with 95% bootstrap intervals over tasks."""
    with tempfile.TemporaryDirectory() as scratch:
        trainer = build(seed, steps, held_out, tasks_per_step, scratch, changes)
        before = trainer.evaluator.run()
        start = time.perf_counter()
        for step in range(steps):
            metrics = trainer.train_step()
            trainer.tracker.log(trainer.step, metrics)
            advance(f"seed {seed}, step {step + 1}, success {metrics['success']:.2f}")
        minutes = (time.perf_counter() - start) / 60
        after = trainer.evaluator.run()
    return {
        "seed": seed,
        "before": before.success.mean,
        "before, 95%": f"{before.success.low:.2f}–{before.success.high:.2f}",
        "after": after.success.mean,
        "after, 95%": f"{after.success.low:.2f}–{after.success.high:.2f}",
        "reward gain": after.reward.mean - before.reward.mean,
        "gain": 100 * (after.success.mean - before.success.mean),
        "steps": steps,
        "minutes": minutes,
    }


def build(
    seed: int, steps: int, held_out: int, tasks_per_step: int, scratch: str, changes: Changes | None = None
) -> Any:
    """Build the trainer and its evaluation on held-out tasks."""
    from steelyard.compose import build_trainer

    return build_trainer(*run_settings(seed, steps, held_out, tasks_per_step, scratch, changes))


def run_settings(
    seed: int, steps: int, held_out: int, tasks_per_step: int, scratch: str, changes: Changes | None = None
) -> tuple[Any, Any]:
    """Return the configuration and the supplied objects; ``changes`` holds table keys to add or replace."""
    from steelyard import config as configs
    from steelyard.compose import Supplied

    tables: dict[str, dict[str, Any]] = {
        "run": {"folder": scratch, "steps": steps, "seed": seed, "supplied": ["tasks", "eval_tasks", "verifier"]},
        "model": {"path": str(model_folder()), "dtype": "bfloat16", "device": "cpu", "lora": {"rank": 64}},
        "sampling": {"tasks_per_step": tasks_per_step, "group_size": 8, "max_new_tokens": 40},
        "optimiser": {"lr": 2e-4, "name": "adamw_fused"},
        "evaluate": {"every": steps, "tasks": held_out, "samples": 1},
        "checkpoint": {"every": 0},
        "tracking": {"console": False},
    }
    supplied = Supplied(tasks=tasks("train", 300), eval_tasks=tasks("held_out", held_out), verifier=check)
    for name, keys in (changes or {}).items():
        tables[name] = {**tables.get(name, {}), **keys}
    return configs.build(tables, source="learn-smol"), supplied
