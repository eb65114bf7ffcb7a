"""Sampling ahead hides two of three phases, and samples a few versions old teach as well as fresh ones.

Time: the real loop, thread and process pool with *engines that wait*: sampling, verifying and updating are each drawn
out to the same length by sleeping, since two cores cannot compute three things at once. Learning: the shipped
``sequences`` recipe with real engines, to its end.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from rich.progress import Progress

from benchmarks.framework.parallel_runs import Tell, abreast
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.seeds import distance, interval
from benchmarks.framework.training_runs import configured
from steelyard.tracking import Report, silent
from steelyard.types import Task

PHASE_SECONDS = 2.0
STEPS, QUICK_STEPS = 8, 3
BAR, QUICK_BAR = 1.2, 1.4
TASKS, GROUP, WORKERS = 4, 8, 4
STALENESS = (0, 1, 2, 4)
LEARN_STALENESS = (0, 1, 4)
SEEDS = (0, 1, 2)
ON_THE_WAY = 200
"""Steps after which a run that learns is looked at, beside its end."""
Rewards = tuple[float, float]
"""On the way, and at the end."""
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
    learnt: dict[int, list[Rewards]] = {}
    for (age, seed), found in zip(asked.values(), abreast(learn, asked, progress, 1.0), strict=True):
        learnt.setdefault(age, []).append(found)
        progress.console.print(f"staleness {age}, seed {seed}: held-out reward {found[0]:.3f}, then {found[1]:.3f}")
    ends = {age: [end for _, end in found] for age, found in learnt.items()}
    return Result("async-steps", (*figures, *overlaps(ends)), rows, note(learnt))


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
    sample, update = trainer.parts.sampler.sample, trainer.learner.update

    def slow_sample(requests: Sequence[Any], decoding: Any) -> Iterator[Any]:
        """The samples one by one, evenly over the time that this share of a step takes."""
        began, made = time.perf_counter(), list(sample(requests, decoding))
        for number, one in enumerate(made, start=1):
            time.sleep(max(0.0, began + PHASE_SECONDS * number / (TASKS * GROUP) - time.perf_counter()))
            yield one

    def slow_update(samples: Sequence[Any], step: int, report: Report = silent) -> Any:
        began = time.perf_counter()
        found = update(samples, step, report)
        time.sleep(max(0.0, PHASE_SECONDS - (time.perf_counter() - began)))
        return found

    trainer.parts.sampler.sample, trainer.learner.update = slow_sample, slow_update
    return trainer


def learn(asked: tuple[int, int], tell: Tell) -> Rewards:
    """Held-out rewards of the shipped recipe with a staleness and a seed."""
    from steelyard.compose import build_evaluator, build_trainer, tasks_of_split

    staleness, seed = asked
    with tempfile.TemporaryDirectory() as folder:
        config = configured("sequences", seed, folder, {"sampling.staleness": staleness})
        with closing(build_trainer(config)) as trainer:
            held_out = tasks_of_split(config, "held_out")
            evaluator = build_evaluator(config, trainer.parts.sampler, trainer.parts.pool, held_out, samples=4)
            rewards: list[float] = []
            for steps in (ON_THE_WAY, config.run.steps):
                while trainer.step < steps:
                    reward = trainer.train_step()["reward/mean"]
                    tell(trainer.step / config.run.steps, f"step {trainer.step}, reward {reward:.2f}")
                with trainer.rollouts.paused():
                    rewards.append(evaluator.run().reward.mean)
    on_the_way, end = rewards
    return on_the_way, end


def overlaps(rewards: dict[int, list[float]]) -> list[Figure]:
    """By how much the 95% interval of each staleness over its seeds overlaps that of the synchronous runs."""
    return [
        Figure(f"overlap of rewards, staleness {staleness} and 0", -distance(values, rewards[0]), ">=", 0.0)
        for staleness, values in rewards.items()
        if staleness
    ]


def note(learnt: dict[int, list[Rewards]]) -> str:
    shown = "; ".join(f"staleness {age}: {_seeds(0, found)}, then {_seeds(1, found)}" for age, found in learnt.items())
    return (
        f"Engines that wait for the times. Held-out rewards after {ON_THE_WAY} steps and at the end of the recipe, a "
        f"figure a seed, with 95% of their mean: {shown}."
    )


def _seeds(when: int, found: Sequence[Rewards]) -> str:
    values = [rewards[when] for rewards in found]
    low, high = interval(values)
    return f"{', '.join(f'{value:.3f}' for value in values)} ({low:.3f}–{high:.3f})"
