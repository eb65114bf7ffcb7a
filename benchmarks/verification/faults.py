"""A verifier that misbehaves in every way: every item gets the right typed cause, and nothing is left behind.

20,000 items in random order, one in ten of which crashes, hangs, forks, floods or lies; then a training run on such a
verifier. On Ray the same with 2,000 items.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from rich.progress import Progress

from benchmarks.framework.orphans import descendants, settle_down, zombies
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
"""What the run's memory may differ by afterwards."""


def measure(quick: bool, progress: Progress) -> Result:
    """Quick: 2,000 items in processes, 230 on Ray."""
    adopt_orphans()  # so that nothing a worker leaves behind can hide
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
    """Causes, and what is there before, at the end of and after the run."""
    pool = ProcessPool(as_verifier(misbehaving.misbehave), workers=WORKERS, limits=LIMITS)
    try:
        judged(pool, [FINE] * WAVE)
        gc.collect()
        before = resident_memory()
        wrong = wrongly_judged(pool, misbehaving.texts(count), progress, "processes", rows)
        gc.collect()
        grown = resident_memory() - before
        settle_down(2 * WORKERS)
        left = len(descendants()) - 2 * WORKERS
        dead = len(zombies())
    finally:
        pool.close()
    settle_down(0)
    return [
        Figure("items with a wrong verdict", wrong, "<=", 0),
        Figure("workers lost or processes left behind", abs(left), "<=", 0),
        Figure("zombies", dead, "<=", 0),
        Figure("processes left after closing", len(descendants()), "<=", 0),
        Figure("memory that did not come back", grown / 2**20, "<=", MEMORY / 2**20, "MiB"),
    ]


def on_ray(count: int, progress: Progress, rows: list[dict[str, Cell]]) -> list[Figure]:
    from steelyard.cluster.pool import RayPool

    pool = RayPool(as_verifier(misbehaving.misbehave), workers=WORKERS, limits=LIMITS)
    try:
        wrong = wrongly_judged(pool, misbehaving.texts(count, seed=1), progress, "Ray", rows)
    finally:
        pool.close()
    return [
        Figure("on Ray: items with a wrong verdict", wrong, "<=", 0),
        Figure("on Ray: processes left after closing", settle_down(0), "<=", 0),
    ]


def in_batches(progress: Progress) -> list[Figure]:
    """One that crashes a batch, or makes it answer too little, costs the others of its batch nothing."""
    texts = [FINE, "segfault", FINE, FINE, FINE, "few", FINE, FINE, "raise", FINE, FINE, "nan"] * 4
    verifier = as_verifier(misbehaving.misbehave_in_batches, mode="batch", size=4)
    pool = ProcessPool(verifier, workers=WORKERS, limits=LIMITS)
    task = progress.add_task("batches", total=1)
    try:
        verdicts = judged(pool, texts)
    finally:
        pool.close()
    progress.advance(task)
    expected = EXPECTED | {"few": misbehaving.Expected("rejected", "bad return")}
    wrong = sum(_seen(verdict) != expected[text] for text, verdict in zip(texts, verdicts, strict=True))
    return [Figure("in batches: items with a wrong verdict", wrong, "<=", 0)]


def training(progress: Progress, name: str, model: dict[str, Any], tasks: list[str]) -> list[Figure]:
    """Ten steps against such a verifier: the run ends, and the policy says more of what is rewarded."""
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
    accidents = sum(row.get("pool/workers_lost", 0.0) for row in rows)
    gain = statistics.mean(rewards[-3:]) - statistics.mean(rewards[:3])
    return [
        Figure(f"{name}: steps", len(rows), ">=", STEPS),
        Figure(f"{name}: workers lost on the way", accidents, ">=", 1),
        Figure(f"{name}: gain in reward", gain, ">=", 0.1),
        Figure(f"{name}: processes left after closing", settle_down(0), "<=", 0),
    ]


def wrongly_judged(
    pool: Pool, texts: Sequence[str], progress: Progress, where: str, rows: list[dict[str, Cell]]
) -> int:
    """How many verdicts are not as they must be; a row for each way to misbehave."""
    task = progress.add_task(where, total=len(texts))
    verdicts = judged(pool, texts, lambda done: progress.update(task, completed=done))
    wrong: Counter[str] = Counter()
    for text, verdict in zip(texts, verdicts, strict=True):
        fine = _seen(verdict) == EXPECTED[text] and (verdict.status != "scored" or verdict.reward == REWARD)
        wrong[text] += not fine
        if not fine:
            progress.console.print(f"{where}: {text!r} ended as {_seen(verdict)}: {verdict.reason[-300:]!r}")
    for kind, count in Counter(texts).items():
        ends_as = " ".join(filter(None, EXPECTED[kind]))
        rows.append({"where": where, "verifier": kind, "ends as": ends_as, "items": count, "wrong": wrong[kind]})
    return wrong.total()


def judged(pool: Pool, texts: Sequence[str], told: Callable[[int], None] | None = None) -> list[Verdict]:
    """Verdicts in the order of the texts; each item must come back exactly once."""
    found: dict[int, Verdict] = {}
    for start in range(0, len(texts), WAVE):
        pool.submit([misbehaving.item(number, texts[number]) for number in range(start, min(start + WAVE, len(texts)))])
        for wait in (False, start + WAVE >= len(texts)):
            for key, verdict in pool.completed(wait=wait):
                if key.slot in found:
                    raise RuntimeError(f"item {key.slot} came back twice")
                found[key.slot] = verdict
                if told is not None:
                    told(len(found))
    return [found[number] for number in range(len(texts))]


def _seen(verdict: Verdict) -> misbehaving.Expected:
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
