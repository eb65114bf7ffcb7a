"""A verifier that waits as long as sampling takes hides behind it: a step takes the longer of both, not their sum."""

from __future__ import annotations

import statistics
import tempfile
import time
from typing import Any

from rich.progress import Progress

from benchmarks import misbehaving
from benchmarks.result import Cell, Figure, Result
from steelyard.types import Task

BAR = 1.15
WAVES, QUICK_WAVES = 16, 8
ROWS, QUICK_ROWS = 32, 16
TOKENS = 64
WORKERS = 8
STEPS, QUICK_STEPS = 5, 2
WORDS = tuple(f"w{number}" for number in range(200))


def wait(task: Task, text: str) -> float:
    """Takes no processor time; how long, the task says."""
    time.sleep(float(task.spec["seconds"]))
    return float(len(text) % 7)


def measure(quick: bool, progress: Progress) -> Result:
    """Steps alternate between a verifier that does not wait, which gives the times apart, and one that does."""
    waves, rows, steps = (QUICK_WAVES, QUICK_ROWS, QUICK_STEPS) if quick else (WAVES, ROWS, STEPS)
    task = progress.add_task("overlap", total=2 * steps + 1)
    found: list[dict[str, Cell]] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = build(folder, waves, rows)
        try:
            step_with(trainer, 0.0)
            progress.advance(task)
            for _ in range(steps):
                apart = step_with(trainer, 0.0)
                seconds = apart["sample"] * WORKERS / (waves * rows)
                verifying = alone(trainer, seconds, waves * rows)
                together = step_with(trainer, seconds)
                progress.advance(task, 2)
                found.append(_row(apart, verifying, together))
        finally:
            trainer.pool.close()
    ratios = [float(row["ratio"]) for row in found]
    in_turn = [float(row["one after the other"]) for row in found]
    figure = Figure(
        "sampling and verifying together, over the longer of the two",
        statistics.median(ratios),
        "<=",
        BAR,
        spread=max(ratios) - min(ratios),
    )
    note = f"One after the other they would take {statistics.median(in_turn):.2f} of the longer one; {waves} waves."
    return Result("overlap", (figure,), found, note)


def _row(apart: dict[str, float], verifying: float, together: dict[str, float]) -> dict[str, Cell]:
    longer = max(apart["sample"], verifying)
    both = together["step"] - together["score"] - together["update"]
    return {
        "sampling s": round(apart["sample"], 3),
        "verifying s": round(verifying, 3),
        "both s": round(both, 3),
        "update s": round(together["update"], 3),
        "ratio": both / longer,
        "one after the other": (apart["sample"] + verifying) / longer,
    }


def build(folder: str, waves: int, rows: int) -> Any:
    """A small policy whose samples come in so many waves."""
    from steelyard import config as configs
    from steelyard.compose import Supplied, build_trainer

    tables = {
        "run": {"folder": folder, "supplied": ["tasks", "verifier"]},
        "model": {"device": "cpu", "scratch": {"vocabulary": list(WORDS), "max_length": 128}},
        "sampling": {"tasks_per_step": waves, "group_size": rows, "max_new_tokens": TOKENS, "max_rows": rows},
        "loss": {"kl": {"coefficient": 0.0}},
        "verify": {"pool": "processes", "workers": WORKERS},
        "checkpoint": {"every": 0},
        "tracking": {"console": False},
    }
    tasks = [{"prompt": word, "seconds": 0.0} for word in WORDS]
    return build_trainer(configs.build(tables, source="benchmark"), Supplied(tasks=tasks, verifier=wait))


def step_with(trainer: Any, seconds: float) -> dict[str, float]:
    """One step whose tasks make the verifier wait so long; the seconds of its phases."""
    from steelyard.data import as_source

    trainer.source = as_source([{"prompt": word, "seconds": seconds} for word in WORDS], shuffle=False)
    metrics = trainer.train_step()
    return {name.removeprefix("time/"): value for name, value in metrics.items() if name.startswith("time/")}


def alone(trainer: Any, seconds: float, count: int) -> float:
    """What verifying takes by itself."""
    base = misbehaving.item(0, "text")
    task = Task("t", "p", {"seconds": seconds})
    items = [type(base)(task, misbehaving.item(number, "text").sample, 1) for number in range(count)]
    began = time.perf_counter()
    trainer.pool.submit(items)
    for _ in trainer.pool.completed(wait=True):
        pass
    return time.perf_counter() - began
