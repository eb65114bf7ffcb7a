"""Asynchronous steps take little longer than their longest phase, and slightly stale samples are as good as fresh ones.

Step time is measured with the real loop, thread and process pool, but with *engines that wait*: sampling, verifying and
updating are stretched to equal length by sleeping, because two cores cannot compute three phases at the same time.
Learning is measured with real engines by running the shipped ``sequences`` recipe to completion.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from rich.progress import Progress

from benchmarks.framework.parallel_runs import ReportProgress, run_in_parallel
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.seeds import distance, interval
from benchmarks.framework.training_runs import load_recipe
from steelyard.tracking import Report, silent
from steelyard.types import Task

PHASE_SECONDS = 2.0
STEPS, QUICK_STEPS = 8, 3
BAR, QUICK_BAR = 1.2, 1.4
TASKS, GROUP, WORKERS = 4, 8, 4
STALENESS = (0, 1, 2, 4)
LEARN_STALENESS = (0, 1, 4)
SEEDS = (0, 1, 2)
EARLY_STEPS = 200
"""Steps after which a learning run is evaluated, in addition to its final evaluation."""
Rewards = tuple[float, float]
"""Held-out rewards after ``EARLY_STEPS`` and at the end."""
WORDS = tuple(f"w{number}" for number in range(8))


def wait(_task: Task, text: str) -> float:
    """Verify without using the CPU."""
    time.sleep(PHASE_SECONDS * WORKERS / (TASKS * GROUP))
    return float(len(text) % 7)


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version takes only a few steps at staleness 0 and 1."""
    levels, steps = ((0, 1), QUICK_STEPS) if quick else (STALENESS, STEPS)
    task = progress.add_task("async-steps", total=len(levels))
    rows: list[dict[str, Cell]] = []
    for staleness in levels:
        progress.update(task, description=f"waiting engines, staleness {staleness}")
        rows.append(time_steps(staleness, steps))
        progress.advance(task)
    ahead = next(row for row in rows if row["staleness"] == 1)
    figures = [Figure("step time / longest phase, staleness 1", float(ahead["ratio"]), "<=", _bar(quick))]
    if quick:
        return Result("async-steps", tuple(figures), rows)
    jobs = {f"staleness {age}, seed {seed}": (age, seed) for age in LEARN_STALENESS for seed in SEEDS}
    rewards: dict[int, list[Rewards]] = {}
    for (age, seed), found in zip(jobs.values(), run_in_parallel(learn, jobs, progress, 1.0), strict=True):
        rewards.setdefault(age, []).append(found)
        progress.console.print(f"staleness {age}, seed {seed}: held-out reward {found[0]:.3f}, then {found[1]:.3f}")
    ends = {age: [end for _, end in found] for age, found in rewards.items()}
    return Result("async-steps", (*figures, *overlaps(ends)), rows, note(rewards))


def _bar(quick: bool) -> float:
    return QUICK_BAR if quick else BAR


def time_steps(staleness: int, steps: int) -> dict[str, Cell]:
    """Compare the seconds per step, once the pipeline is full, with the longest phase."""
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
        "steps per hour": round(3600 / seconds),
    }


def build_waiting(staleness: int, folder: str) -> Any:
    """Build a small policy whose sampling and updates are stretched to ``PHASE_SECONDS``."""
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
        """Yield the samples one by one, spread evenly over their part of the phase."""
        began, samples = time.perf_counter(), list(sample(requests, decoding))
        for number, one in enumerate(samples, start=1):
            time.sleep(max(0.0, began + PHASE_SECONDS * number / (TASKS * GROUP) - time.perf_counter()))
            yield one

    def slow_update(samples: Sequence[Any], step: int, report: Report = silent) -> Any:
        began = time.perf_counter()
        found = update(samples, step, report)
        time.sleep(max(0.0, PHASE_SECONDS - (time.perf_counter() - began)))
        return found

    trainer.parts.sampler.sample, trainer.learner.update = slow_sample, slow_update
    return trainer


def learn(job: tuple[int, int], report_progress: ReportProgress) -> Rewards:
    """Train the shipped recipe with the given staleness and seed, and return its held-out rewards."""
    from steelyard.compose import build_evaluator, build_trainer, tasks_of_split

    staleness, seed = job
    with tempfile.TemporaryDirectory() as folder:
        config = load_recipe("sequences", seed, folder, {"sampling.staleness": staleness})
        with closing(build_trainer(config)) as trainer:
            held_out = tasks_of_split(config, "held_out")
            evaluator = build_evaluator(config, trainer.parts.sampler, trainer.parts.pool, held_out, samples=4)
            rewards: list[float] = []
            for steps in (EARLY_STEPS, config.run.steps):
                while trainer.step < steps:
                    reward = trainer.train_step()["reward/mean"]
                    report_progress(trainer.step / config.run.steps, f"step {trainer.step}, reward {reward:.2f}")
                with trainer.rollouts.paused():
                    rewards.append(evaluator.run().reward.mean)
    early, end = rewards
    return early, end


def overlaps(rewards: dict[int, list[float]]) -> list[Figure]:
    """Return how far the 95% interval over seeds at each staleness overlaps that of the synchronous runs."""
    return [
        Figure(f"overlap of reward intervals, staleness {staleness} and 0", -distance(values, rewards[0]), ">=", 0.0)
        for staleness, values in rewards.items()
        if staleness
    ]


def note(rewards: dict[int, list[Rewards]]) -> str:
    shown = "; ".join(f"staleness {age}: {_seeds(0, found)}, then {_seeds(1, found)}" for age, found in rewards.items())
    return (
        f"Times are measured with engines that wait. Held-out rewards after {EARLY_STEPS} steps and at the end of the "
        f"recipe, one value per seed with the 95% interval of their mean: {shown}."
    )


def _seeds(when: int, found: Sequence[Rewards]) -> str:
    values = [rewards[when] for rewards in found]
    low, high = interval(values)
    return f"{', '.join(f'{value:.3f}' for value in values)} ({low:.3f}–{high:.3f})"
