"""Steelyard's pool survives verifiers that crash, hang or leave processes behind; two other process pools do not."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from rich.progress import Progress

from benchmarks.framework.orphans import descendants
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.verification import misbehaving
from benchmarks.verification.misbehaving import FINE, LIMITS
from steelyard.types import Task
from steelyard.verification import ProcessPool, as_verifier
from steelyard.verification.processes.descendants import adopt_orphans, end_children

KINDS = ("raise", "segfault", "exit", "sleep", "child", "session", "daemon", "print", "close")
ITEMS, QUICK_ITEMS = 10_000, 2_000
SECONDS = 1.0
TASK = Task("t", "p")


def measure(quick: bool, progress: Progress) -> Result:
    """Test each kind in a fresh pool: the next item must be scored within three time limits; no process may remain."""
    adopt_orphans()
    task = progress.add_task("pool-libraries", total=3 * len(KINDS) + 3)
    rows: list[dict[str, Cell]] = []
    survived: dict[str, int] = {}
    for name, run in (("steelyard", ours), ("pebble", pebble), ("concurrent.futures", executor)):
        for kind in KINDS:
            lives, left = attempt(run, kind)
            survived[name] = survived.get(name, 0) + (lives and not left)
            rows.append({"pool": name, "verifier": kind, "continues": "yes" if lives else "no", "left running": left})
            progress.advance(task)
        rate = items_per_second(run, QUICK_ITEMS if quick else ITEMS)
        rows.append({"pool": name, "verifier": f"fine, {rate:.0f} items/s", "continues": "yes", "left running": 0})
        progress.advance(task)
    note = "; ".join(f"{name} survives {count} of {len(KINDS)}" for name, count in survived.items())
    figure = Figure("kinds of misbehaviour survived", survived["steelyard"], ">=", len(KINDS))
    return Result("pool-libraries", (figure,), rows, note)


def attempt(run: Callable[[list[str]], list[bool]], kind: str) -> tuple[bool, int]:
    """Return whether a good item after the bad one is scored, and how many processes the closed pool leaves behind."""
    try:
        lives = run([kind, FINE])[-1]
    except Exception:  # noqa: BLE001 - any failure of the library counts
        lives = False
    time.sleep(0.3)
    left = descendants()
    end_children()
    return lives, len(left)


def items_per_second(run: Callable[[list[str]], list[bool]], count: int) -> float:
    began = time.perf_counter()
    run([FINE])
    start = time.perf_counter() - began
    began = time.perf_counter()
    run([FINE] * count)
    return count / max(time.perf_counter() - began - start, 1e-9)


def ours(texts: list[str]) -> list[bool]:
    pool = ProcessPool(as_verifier(misbehaving.misbehave), workers=1, limits=LIMITS)
    try:
        pool.submit([misbehaving.item(number, text) for number, text in enumerate(texts)])
        found = {key.slot: verdict.status == "scored" for key, verdict in pool.completed(wait=True)}
    finally:
        pool.close()
    return [found[number] for number in range(len(texts))]


def pebble(texts: list[str]) -> list[bool]:
    from pebble import ProcessPool as Pebble

    with Pebble(max_workers=1) as pool:
        futures = [pool.schedule(misbehaving.misbehave, (TASK, text), timeout=SECONDS) for text in texts]
        found = _answers(futures)
        pool.stop()
    return found


def executor(texts: list[str]) -> list[bool]:
    pool = ProcessPoolExecutor(1)
    futures = [pool.submit(misbehaving.misbehave, TASK, text) for text in texts]
    found = _answers(futures)
    pool.shutdown(wait=False, cancel_futures=True)
    return found


def _answers(futures: Sequence[Any]) -> list[bool]:
    """Return whether each future returned a score in time."""
    found: list[bool] = []
    for future in futures:
        try:
            found.append(isinstance(future.result(timeout=3 * SECONDS), float))
        except Exception:  # noqa: BLE001 - the cause does not matter here
            found.append(False)
    return found
