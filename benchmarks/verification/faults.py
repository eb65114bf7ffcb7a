"""However a verifier misbehaves, every item gets the correct typed cause, and no process is left behind.

20,000 items arrive in random order; one in ten crashes, hangs, forks, floods its output or returns nonsense. Then two
training runs use such a verifier. On Ray there are 2,000 items.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from rich.progress import Progress

from benchmarks.framework.orphans import descendants, wait_for_pool_processes, zombies
from benchmarks.framework.process import resident_memory
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.verification import misbehaving
from benchmarks.verification.misbehaving import EXPECTED, FINE, LIMITS, REWARD
from steelyard.types import HOLE, Verdict
from steelyard.verification import Pool, ProcessPool, as_verifier
from steelyard.verification.processes.descendants import adopt_orphans

ITEMS, QUICK_ITEMS, RAY_ITEMS, QUICK_RAY_ITEMS = 20_000, 2_000, 2_000, 230
WORKERS = 2
STEPS = 10
WAVE = 500
MEMORY = 64 * 2**20
"""Largest allowed growth in the run's memory."""


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version verifies 2,000 items in processes and 230 on Ray."""
    adopt_orphans()  # so that processes left behind by workers can be found
    rows: list[dict[str, Cell]] = []
    figures = [
        *in_processes(QUICK_ITEMS if quick else ITEMS, progress, rows),
        *on_ray(QUICK_RAY_ITEMS if quick else RAY_ITEMS, progress, rows),
        *in_batches(progress),
        *training(progress, "training", {}, list("bcde")),
        *training(
            progress, "fill-in", {"kind": "masked"}, [f"{letter} {HOLE} {HOLE} {HOLE} {HOLE}" for letter in "bcde"]
        ),
    ]
    return Result("faults", tuple(figures), rows)


def in_processes(count: int, progress: Progress, rows: list[dict[str, Cell]]) -> list[Figure]:
    """Check the reported failure causes; compare processes and memory before, during and after the run."""
    pool = ProcessPool(as_verifier(misbehaving.misbehave), workers=WORKERS, limits=LIMITS)
    try:
        verify_texts(pool, [FINE] * WAVE)
        gc.collect()
        before = resident_memory()
        wrong = count_wrong(pool, misbehaving.texts(count), progress, "processes", rows)
        gc.collect()
        grown = resident_memory() - before
        wait_for_pool_processes(2 * WORKERS)
        left = len(descendants()) - 2 * WORKERS
        dead = len(zombies())
    finally:
        pool.close()
    wait_for_pool_processes(0)
    return [
        Figure("items with a wrong verdict", wrong, "<=", 0),
        Figure("workers lost or processes left behind", abs(left), "<=", 0),
        Figure("zombies", dead, "<=", 0),
        Figure("processes left after closing", len(descendants()), "<=", 0),
        Figure("memory not released", grown / 2**20, "<=", MEMORY / 2**20, "MiB"),
    ]


def on_ray(count: int, progress: Progress, rows: list[dict[str, Cell]]) -> list[Figure]:
    from steelyard.cluster.pool import RayPool

    pool = RayPool(as_verifier(misbehaving.misbehave), workers=WORKERS, limits=LIMITS)
    try:
        wrong = count_wrong(pool, misbehaving.texts(count, seed=1), progress, "Ray", rows)
    finally:
        pool.close()
    return [
        Figure("on Ray: items with a wrong verdict", wrong, "<=", 0),
        Figure("on Ray: processes left after closing", wait_for_pool_processes(0), "<=", 0),
    ]


def in_batches(progress: Progress) -> list[Figure]:
    """Check that an item that crashes its batch, or truncates its results, does not affect the batch's other items."""
    texts = [FINE, "segfault", FINE, FINE, FINE, "few", FINE, FINE, "raise", FINE, FINE, "nan"] * 4
    verifier = as_verifier(misbehaving.misbehave_in_batches, mode="batch", size=4)
    pool = ProcessPool(verifier, workers=WORKERS, limits=LIMITS)
    task = progress.add_task("batches", total=1)
    try:
        verdicts = verify_texts(pool, texts)
    finally:
        pool.close()
    progress.advance(task)
    expected = EXPECTED | {"few": misbehaving.Expected("rejected", "bad return")}
    wrong = sum(_outcome(verdict) != expected[text] for text, verdict in zip(texts, verdicts, strict=True))
    return [Figure("in batches: items with a wrong verdict", wrong, "<=", 0)]


def training(progress: Progress, name: str, model: dict[str, Any], tasks: list[str]) -> list[Figure]:
    """Train for ten steps with such a verifier: the run must finish, and the reward must rise."""
    from steelyard import config as configs
    from steelyard.compose import Supplied, build_trainer

    task = progress.add_task(name, total=STEPS)
    with tempfile.TemporaryDirectory() as folder:
        config = configs.build(_tables(folder, model), source="benchmark")
        trainer = build_trainer(config, Supplied(tasks=tasks, verifier=misbehaving.share_of_a))
        try:
            rows: list[dict[str, Any]] = []
            for _ in range(STEPS):
                rows.append(trainer.train_step())
                progress.advance(task)
        finally:
            trainer.parts.pool.close()
    rewards = [row["reward/mean"] for row in rows]
    workers_lost = sum(row.get("pool/workers_lost", 0.0) for row in rows)
    gain = statistics.mean(rewards[-3:]) - statistics.mean(rewards[:3])
    return [
        Figure(f"{name}: steps", len(rows), ">=", STEPS),
        Figure(f"{name}: workers lost", workers_lost, ">=", 1),
        Figure(f"{name}: gain in reward", gain, ">=", 0.1),
        Figure(f"{name}: processes left after closing", wait_for_pool_processes(0), "<=", 0),
    ]


def count_wrong(pool: Pool, texts: Sequence[str], progress: Progress, where: str, rows: list[dict[str, Cell]]) -> int:
    """Count the wrong verdicts, and add a row for each kind of misbehaviour."""
    task = progress.add_task(where, total=len(texts))
    verdicts = verify_texts(pool, texts, lambda done: progress.update(task, completed=done))
    wrong: Counter[str] = Counter()
    for text, verdict in zip(texts, verdicts, strict=True):
        fine = _outcome(verdict) == EXPECTED[text] and (verdict.status != "scored" or verdict.reward == REWARD)
        wrong[text] += not fine
        if not fine:
            progress.console.print(f"{where}: {text!r} ended as {_outcome(verdict)}: {verdict.reason[-300:]!r}")
    for kind, count in Counter(texts).items():
        expected = " ".join(filter(None, EXPECTED[kind]))
        rows.append({"where": where, "verifier": kind, "expected": expected, "items": count, "wrong": wrong[kind]})
    return wrong.total()


def verify_texts(pool: Pool, texts: Sequence[str], on_progress: Callable[[int], None] | None = None) -> list[Verdict]:
    """Return verdicts in the order of the texts; each item must come back exactly once."""
    found: dict[int, Verdict] = {}
    for start in range(0, len(texts), WAVE):
        pool.submit([misbehaving.item(number, texts[number]) for number in range(start, min(start + WAVE, len(texts)))])
        for wait in (False, start + WAVE >= len(texts)):
            for key, verdict in pool.completed(wait=wait):
                if key.slot in found:
                    raise RuntimeError(f"item {key.slot} came back twice")
                found[key.slot] = verdict
                if on_progress is not None:
                    on_progress(len(found))
    return [found[number] for number in range(len(texts))]


def _outcome(verdict: Verdict) -> misbehaving.Expected:
    return misbehaving.Expected(verdict.status, verdict.cause, verdict.detail)


def _tables(folder: str, model: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": {"folder": folder, "supplied": ["tasks", "verifier"], "steps": STEPS},
        "model": {
            **model,
            "device": "cpu",
            "scratch": {"vocabulary": list("abcde"), "layers": 2, "width": 64, "heads": 2, "max_length": 16},
        },
        "sampling": {"tasks_per_step": 4, "group_size": 24, "max_new_tokens": 4},
        "optimiser": {"lr": 5e-3},
        "loss": {"kl": {"coefficient": 0.0}},
        "verify": {
            "pool": "processes",
            "workers": WORKERS,
            "limits": {"seconds": 0.3, "memory_mb": 1024, "output_kb": 256},
        },
        "checkpoint": {"every": 0},
        "tracking": {"console": False},
    }
