"""Sampling ahead hides two of three phases, and samples a few versions old teach as well as fresh ones.

Time: the real loop, thread and process pool with *engines that wait*: sampling, verifying and updating are each drawn
out to the same length by sleeping, since two cores cannot compute three things at once. Learning: the shipped
``sequences`` recipe for a fixed number of steps with real engines.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from typing import Any

from rich.progress import Progress

from benchmarks.abreast import abreast
from benchmarks.result import Cell, Figure, Result
from benchmarks.seeds import distance, interval
from benchmarks.watched import Tell, configured
from steelyard.types import Task

PHASE_SECONDS = 2.0
STEPS, QUICK_STEPS = 8, 3
BAR, QUICK_BAR = 1.2, 1.4
TASKS, GROUP, WORKERS = 4, 8, 4
STALENESS = (0, 1, 2, 4)
LEARN_STALENESS = (0, 1, 4)
SEEDS = (0, 1, 2)
LEARN_STEPS = 200
WORDS = tuple(f"w{number}" for number in range(8))


def wait(_task: Task, text: str) -> float:
    """A verifier that takes no processor time."""
    time.sleep(PHASE_SECONDS * WORKERS / (TASKS * GROUP))
    return float(len(text) % 7)


def measure(quick: bool, progress: Progress) -> Result:
    """Quick: the step's time at staleness 0 and 1, a few steps each."""
    levels, steps = ((0, 1), QUICK_STEPS) if quick else (STALENESS, STEPS)
    task = progress.add_task("async-steps", total=len(levels))
    rows: list[dict[str, Cell]] = []
    for staleness in levels:
        progress.update(task, description=f"waiting engines, staleness {staleness}")
        rows.append(waiting(staleness, steps))
        progress.advance(task)
    ahead = next(row for row in rows if row["staleness"] == 1)
    figures = [Figure("step over its longest phase, staleness 1", float(ahead["ratio"]), "<=", _bar(quick))]
    if quick:
        return Result("async-steps", tuple(figures), rows)
    asked = {f"staleness {age}, seed {seed}": (age, seed) for age in LEARN_STALENESS for seed in SEEDS}
    rewards: dict[int, list[float]] = {}
    for (age, seed), reward in zip(asked.values(), abreast(learn, asked, progress, 1.0), strict=True):
        rewards.setdefault(age, []).append(reward)
        progress.console.print(f"staleness {age}, seed {seed}: held-out reward {reward:.3f}")
    return Result("async-steps", (*figures, *overlaps(rewards)), rows, note(rewards))


def _bar(quick: bool) -> float:
    return QUICK_BAR if quick else BAR


def waiting(staleness: int, steps: int) -> dict[str, Cell]:
    """Seconds of a step once the pipeline is full, over the longest of its phases."""
    with tempfile.TemporaryDirectory() as folder, closing(build_waiting(staleness, folder)) as trainer:
        for _ in range(2 + staleness):
            trainer.train_step()
        began, behind, updates = time.perf_counter(), list[float](), list[float]()
        for _ in range(steps):
            metrics = trainer.train_step()
            behind.append(float(metrics.get("staleness/mean", 0.0)))
            updates.append(float(metrics["time/update"]))
        seconds = (time.perf_counter() - began) / steps
    longest = max(PHASE_SECONDS, statistics.mean(updates))
    return {
        "staleness": staleness,
        "step s": round(seconds, 3),
        "longest phase s": round(longest, 3),
        "ratio": seconds / longest,
        "mean age of samples": statistics.mean(behind),
        "steps an hour": round(3600 / seconds),
    }


def build_waiting(staleness: int, folder: str) -> Any:
    """A small policy whose sampling and updates are drawn out to ``PHASE_SECONDS``."""
    from steelyard import config as configs
    from steelyard.compose import Supplied, build_trainer

    tables = {
        "run": {"folder": folder, "supplied": ["tasks", "verifier"]},
        "model": {"device": "cpu", "scratch": {"vocabulary": list(WORDS), "width": 32, "max_length": 32}},
        "sampling": {"tasks_per_step": TASKS, "group_size": GROUP, "max_new_tokens": 8, "staleness": staleness},
        "loss": {"kl": {"coefficient": 0.0}},
        "verify": {"pool": "processes", "workers": WORKERS},
        "checkpoint": {"every": 0},
        "tracking": {"console": False},
    }
    tasks = [{"prompt": word} for word in WORDS]
    trainer = build_trainer(configs.build(tables, source="benchmark"), Supplied(tasks=tasks, verifier=wait))
    sample, update = trainer.sampler.sample, trainer.learner.update

    def slow_sample(requests: Sequence[Any], decoding: Any) -> Iterator[Any]:
        """The samples one by one, evenly over the time that this share of a step takes."""
        began, made = time.perf_counter(), list(sample(requests, decoding))
        for number, one in enumerate(made, start=1):
            time.sleep(max(0.0, began + PHASE_SECONDS * number / (TASKS * GROUP) - time.perf_counter()))
            yield one

    def slow_update(samples: Sequence[Any], step: int) -> Any:
        began = time.perf_counter()
        found = update(samples, step)
        time.sleep(max(0.0, PHASE_SECONDS - (time.perf_counter() - began)))
        return found

    trainer.sampler.sample, trainer.learner.update = slow_sample, slow_update
    return trainer


def learn(asked: tuple[int, int], tell: Tell) -> float:
    """Held-out reward of the shipped recipe after ``LEARN_STEPS`` steps with a staleness and a seed."""
    from steelyard.compose import build_evaluator, build_trainer, tasks_of_split

    staleness, seed = asked
    with tempfile.TemporaryDirectory() as folder:
        config = configured("sequences", seed, folder, {"sampling.staleness": staleness})
        with closing(build_trainer(config)) as trainer:
            held_out = tasks_of_split(config, "held_out")
            evaluator = build_evaluator(config, trainer.sampler, trainer.pool, held_out, samples=4)
            for step in range(LEARN_STEPS):
                metrics = trainer.train_step()
                tell((step + 1) / LEARN_STEPS, f"step {step + 1}, reward {metrics['reward/mean']:.2f}")
            with trainer.ahead.paused() if trainer.ahead is not None else nullcontext():
                return evaluator.run().reward.mean


def overlaps(rewards: dict[int, list[float]]) -> list[Figure]:
    """By how much the 95% interval of each staleness over its seeds overlaps that of the synchronous runs."""
    return [
        Figure(f"overlap of rewards, staleness {staleness} and 0", -distance(values, rewards[0]), ">=", 0.0)
        for staleness, values in rewards.items()
        if staleness
    ]


def note(rewards: dict[int, list[float]]) -> str:
    shown = "; ".join(
        f"staleness {staleness}: {', '.join(f'{value:.3f}' for value in values)} "
        f"(95% of their mean: {interval(values)[0]:.3f}–{interval(values)[1]:.3f})"
        for staleness, values in rewards.items()
    )
    return f"Engines that wait for the times. Held-out reward after {LEARN_STEPS} steps, a figure a seed: {shown}."
