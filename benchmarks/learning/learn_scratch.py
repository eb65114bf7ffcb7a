"""A policy of 1–2M parameters learns copy, sort and count from the verifier alone, with every estimator and surrogate.

Each run has 120 seconds on two threads and is evaluated on held-out sequences that never occur in training. As in the
recipe, evaluation samples at temperature 0.25, while training samples at 1 and keeps entropy high. Mean-reward
estimators are compared by mean reward, and pass@k estimators by pass@k at temperature 1, where they must beat
``group_norm``.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.progress import Progress

from benchmarks.framework.result import Cell, Figure, Result

SECONDS = 120.0
TARGET = 0.95
QUICK_TARGET = 0.5
START = 0.3
SEEDS = (0, 1, 2, 3, 4)
EVALUATE_EVERY = 25
K = 8
PASS_AT_K_STEPS = 80
"""Steps after which pass@k is compared: the same for every estimator, and early enough that none solves all tasks."""


@dataclass(frozen=True)
class Variant:
    """A combination of an estimator and a surrogate."""

    estimator: str
    surrogate: str = "ppo_clip"
    k: int | None = None

    @property
    def name(self) -> str:
        return f"{self.estimator}{f'({self.k})' if self.k else ''} + {self.surrogate}"


MEAN_TYPE = (
    *(Variant(estimator) for estimator in ("group_norm", "group_mean", "rloo", "batch_norm")),
    *(Variant("group_norm", surrogate) for surrogate in ("gspo", "cispo", "reinforce")),
)
PASS_AT_K_TYPE = (Variant("pass_at_k", k=K), Variant("max_at_k", k=K), Variant("best_of_group"))


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version trains one seed (group_norm, ppo_clip) to half the reward or 50 seconds."""
    if quick:
        task = progress.add_task("learn-scratch", total=1)
        row = learn(MEAN_TYPE[0], 0, 50.0, QUICK_TARGET)
        progress.advance(task)
        return Result("learn-scratch", (Figure("held-out reward", float(row["end"]), ">=", QUICK_TARGET),), [row])
    compared_by_pass_at_k = (Variant("group_norm"), *PASS_AT_K_TYPE)
    task = progress.add_task("learn-scratch", total=(len(MEAN_TYPE) + len(compared_by_pass_at_k)) * len(SEEDS))
    rows: list[dict[str, Cell]] = []
    for variant in MEAN_TYPE:
        for seed in SEEDS:
            progress.update(task, description=f"{variant.name}, seed {seed}")
            rows.append(learn(variant, seed, SECONDS, TARGET))
            progress.advance(task)
            progress.console.print("{variant}, seed {seed}: {end:.3f} after {seconds:.0f} s".format(**rows[-1]))
    found: dict[str, list[float]] = {}
    for variant in compared_by_pass_at_k:
        for seed in SEEDS:
            progress.update(task, description=f"{variant.name}, pass@{K}, seed {seed}")
            found.setdefault(variant.name, []).append(pass_at_k_after(variant, seed, PASS_AT_K_STEPS))
            progress.advance(task)
            progress.console.print(f"{variant.name}, seed {seed}: pass@{K} {found[variant.name][-1]:.3f}")
    note = f"pass@{K} after {PASS_AT_K_STEPS} steps: " + "; ".join(
        f"{name} {', '.join(f'{value:.3f}' for value in values)}" for name, values in found.items()
    )
    return Result("learn-scratch", (*mean_figures(rows), *pass_at_k_figures(found)), rows, note)


def mean_figures(rows: Sequence[dict[str, Cell]]) -> tuple[Figure, ...]:
    """Compare each variant's worst run with the target, and the highest initial reward with the allowed maximum."""
    figures: list[Figure] = []
    for variant in dict.fromkeys(str(row["variant"]) for row in rows):
        ends = [float(row["end"]) for row in rows if row["variant"] == variant]
        figures.append(Figure(f"{variant}: held-out reward", min(ends), ">=", TARGET, spread=max(ends) - min(ends)))
    starts = [float(row["start"]) for row in rows]
    return (*figures, Figure("highest initial reward", max(starts), "<=", START, spread=max(starts) - min(starts)))


def pass_at_k_figures(found: dict[str, list[float]]) -> list[Figure]:
    """Return how much each mean pass@k exceeds that of group_norm; it must be larger."""
    base, *others = found
    level = statistics.mean(found[base])
    return [
        Figure(
            f"{name}: pass@{K} above group_norm",
            statistics.mean(found[name]) - level,
            ">=",
            1e-9,
            spread=max(found[name]) - min(found[name]),
        )
        for name in others
    ]


def pass_at_k_after(variant: Variant, seed: int, steps: int) -> float:
    """Return held-out pass@k on the guessing tasks after a fixed number of steps."""
    with tempfile.TemporaryDirectory() as scratch:
        trainer = build_guessing(variant, seed, scratch)
        for _ in range(steps):
            trainer.train_step()
        return trainer.evaluator.run().pass_at[K].mean


def learn(variant: Variant, seed: int, seconds: float, target: float) -> dict[str, Cell]:
    """Train until the held-out reward reaches ``target`` or the time is up; evaluation time counts."""
    with tempfile.TemporaryDirectory() as scratch:
        trainer = build(variant, seed, scratch)
        start = trainer.evaluator.run().reward.mean
        began, end = time.perf_counter(), start
        while time.perf_counter() - began < seconds:
            trainer.train_step()
            if trainer.step % EVALUATE_EVERY == 0:
                end = trainer.evaluator.run().reward.mean
                if end >= target:
                    break
        spent = time.perf_counter() - began
        if end < target:
            end = trainer.evaluator.run().reward.mean
        as_trained = at_temperature_one(trainer.evaluator).run().reward.mean
    return {
        "variant": variant.name,
        "seed": seed,
        "start": start,
        "end": end,
        "end at temperature 1": as_trained,
        "steps": trainer.step,
        "seconds": spent,
        "parameters": sum(parameter.numel() for parameter in trainer.policy.model.parameters()),
        "tasks": len(trainer.parts.source),
    }


def at_temperature_one(evaluator: Any) -> Any:
    """Return the evaluator at the training temperature; this harder result is reported without a bar."""
    rule = replace(evaluator.decoding.rule, temperature=1.0)
    decoding = replace(evaluator.decoding, rule=rule)
    return type(evaluator)(evaluator.sampler, evaluator.pool, evaluator.tasks, decoding, samples=evaluator.samples)


def overrides_of(variant: Variant, seed: int, scratch: str) -> dict[str, Any]:
    """Return the recipe overrides that both kinds of run use."""
    overrides: dict[str, Any] = {
        "run.folder": scratch,
        "run.seed": seed,
        "model.device": "cpu",
        "credit.advantage": variant.estimator,
        "loss.surrogate": variant.surrogate,
        "evaluate.every": 0,
        "checkpoint.every": 0,
        "tracking.console": False,
        "tracking.samples_every": 0,
    }
    if variant.surrogate == "gspo":  # GSPO has one ratio per sequence, so it requires this aggregation
        overrides["loss.aggregation"] = "sequence_mean"
    if variant.k is not None:
        overrides["credit.k"] = variant.k
    return overrides


def build(variant: Variant, seed: int, scratch: str) -> Any:
    """Build the shipped ``sequences`` recipe with the variant's loss, evaluated on all held-out sequences."""
    from steelyard import config as configs
    from steelyard.compose import build_domain, build_evaluator, build_trainer
    from steelyard.data import domain_tasks

    config = configs.load("sequences", overrides_of(variant, seed, scratch))
    trainer, domain = build_trainer(config), build_domain(config)
    assert domain is not None
    held_out = domain_tasks(domain, "held_out")
    trainer.evaluator = build_evaluator(config, trainer.parts.sampler, trainer.parts.pool, held_out, samples=4)
    return trainer


def build_guessing(variant: Variant, seed: int, scratch: str) -> Any:
    """Build the same policy for the guessing tasks, without the entropy bonus, which would also diversify guesses."""
    from benchmarks.learning.symbol_guessing import VOCABULARY, check, tasks
    from steelyard import config as configs
    from steelyard.compose import Supplied, build_evaluator, build_trainer

    overrides = {
        **overrides_of(variant, seed, scratch),
        "domain": None,
        "verify.pool": "inline",
        "run.supplied": ["tasks", "verifier"],
        "model.scratch.vocabulary": list(VOCABULARY),
        "sampling.tasks_per_step": 16,
        "sampling.group_size": 16,
        "sampling.max_new_tokens": 3,
        "credit.refill_dead_groups": 0,
        "loss.entropy.coefficient": 0.0,
        "optimiser.lr": 3e-3,
        "optimiser.weight_decay": 0.0,
        "evaluate.temperature": 1.0,
        "evaluate.samples": 2 * K,
        "evaluate.ks": [K],
    }
    config = configs.load("sequences", overrides)
    supplied = Supplied(tasks=tasks("train"), verifier=check)
    trainer = build_trainer(config, supplied)
    trainer.evaluator = build_evaluator(config, trainer.parts.sampler, trainer.parts.pool, tasks("held_out"))
    return trainer
