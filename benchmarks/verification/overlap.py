"""Verification overlaps with sampling: if both take equally long, together they take little longer than one of them."""

from __future__ import annotations

import statistics
import tempfile
import time
from typing import Any

from rich.progress import Progress

from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.verification import misbehaving
from steelyard.types import Task

BAR, QUICK_BAR = 1.15, 1.3
"""The quick bar is wider because quick runs have short waves and only two steps, so they are noisier."""
WAVES = 24
ROWS, QUICK_ROWS = 32, 8
TOKENS = 64
WORKERS = 8
STEPS, QUICK_STEPS = 7, 2
WORDS = tuple(f"w{number}" for number in range(200))


def wait(task: Task, text: str) -> float:
    """Wait for the seconds given by the task without using the CPU."""
    time.sleep(float(task.spec["seconds"]))
    return float(len(text) % 7)


def measure(quick: bool, progress: Progress) -> Result:
    """Alternate steps with a waiting verifier and steps without one; the latter give the time of sampling alone."""
    rows, steps = (QUICK_ROWS, QUICK_STEPS) if quick else (ROWS, STEPS)
    waves = WAVES
    task = progress.add_task("overlap", total=2 * steps + 1)
    found: list[dict[str, Cell]] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = build(folder, waves, rows)
        try:
            step_with(trainer, 0.0)
            before = step_with(trainer, 0.0)
            progress.advance(task)
            for _ in range(steps):
                seconds = before["sample"] * WORKERS / (waves * rows)
                verifying = alone(trainer, seconds, waves * rows)
                together = step_with(trainer, seconds)
                after = step_with(trainer, 0.0)
                progress.advance(task, 2)
                found.append(_row((before["sample"] + after["sample"]) / 2, verifying, together))
                before = after
        finally:
            trainer.parts.pool.close()
    ratios = [float(row["ratio"]) for row in found]
    in_sequence = [float(row["in sequence"]) for row in found]
    figure = Figure(
        "time of sampling and verifying together / the longer of the two",
        statistics.median(ratios),
        "<=",
        QUICK_BAR if quick else BAR,
        spread=max(ratios) - min(ratios),
    )
    note = f"In sequence they would take {statistics.median(in_sequence):.2f} times the longer one; {waves} waves."
    return Result("overlap", (figure,), found, note)


def _row(sampling: float, verifying: float, together: dict[str, float]) -> dict[str, Cell]:
    longer = max(sampling, verifying)
    both = together["step"] - together["score"] - together["update"]
    return {
        "sampling s": round(sampling, 3),
        "verifying s": round(verifying, 3),
        "both s": round(both, 3),
        "update s": round(together["update"], 3),
        "ratio": both / longer,
        "in sequence": (sampling + verifying) / longer,
    }


def build(folder: str, waves: int, rows: int) -> Any:
    """Build a small policy whose samples are drawn in ``waves`` waves."""
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
    """Take one step with a verifier that waits ``seconds``, and return the seconds of its phases."""
    from steelyard.data import as_source

    trainer.parts.source = as_source([{"prompt": word, "seconds": seconds} for word in WORDS], shuffle=False)
    metrics = trainer.train_step()
    return {name.removeprefix("time/"): value for name, value in metrics.items() if name.startswith("time/")}


def alone(trainer: Any, seconds: float, count: int) -> float:
    """Return the seconds that verification takes without sampling."""
    base = misbehaving.item(0, "text")
    task = Task("t", "p", {"seconds": seconds})
    items = [type(base)(task, misbehaving.item(number, "text").sample, 1) for number in range(count)]
    began = time.perf_counter()
    trainer.parts.pool.submit(items)
    for _ in trainer.parts.pool.completed(wait=True):
        pass
    return time.perf_counter() - began
