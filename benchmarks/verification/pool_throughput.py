"""Steelyard's pools reach 80% of concurrent.futures and bare Ray actors on tiny items, and 95% of two ideal cores.

On tiny items, the baselines are ``concurrent.futures`` and bare Ray actors. On 50 ms items, the baseline is two
processes that divide the work in advance.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from rich.progress import Progress

from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.verification import misbehaving
from steelyard.types import Task
from steelyard.verification import Item, Pool, ProcessPool, as_verifier

WORKERS = 2
TINY, QUICK_TINY = 20_000, 10_000
SLOW, QUICK_SLOW = 120, 40
ROUNDS = 5
WORK_SECONDS = 0.05


def tiny(_task: Task, text: str) -> float:
    return float(len(text))


def fifty_milliseconds(_task: Task, _text: str) -> float:
    """Keep the CPU busy for fifty milliseconds."""
    end = time.process_time() + WORK_SECONDS
    turns = 0
    while time.process_time() < end:
        turns += 1
    return float(turns > 0)


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; both sides alternate in one run. The quick version uses fewer items."""
    items = [misbehaving.item(number, "some text") for number in range(QUICK_TINY if quick else TINY)]
    slow = items[: QUICK_SLOW if quick else SLOW]
    rows: list[dict[str, Cell]] = []
    figures = [
        _compared("tiny", items, tiny, ours_and_executor, 0.8, progress, rows),
        _compared("50 ms of work", slow, fifty_milliseconds, ours_and_bare_processes, 0.95, progress, rows),
        _compared("tiny on Ray", items, tiny, ours_and_bare_actors, 0.8, progress, rows),
    ]
    return Result("pool-throughput", tuple(figures), rows)


Rates = tuple[Callable[[], float], Callable[[], float], Callable[[], None]]
"""Two functions that return our rate and the baseline's in items per second, and one that closes both."""


def _compared(
    name: str,
    items: list[Item],
    function: Callable[[Task, str], float],
    sides: Callable[[list[Item], Callable[[Task, str], float]], Rates],
    bar: float,
    progress: Progress,
    rows: list[dict[str, Cell]],
) -> Figure:
    task = progress.add_task(name, total=2 * ROUNDS)
    ours, other, close = sides(items, function)
    ratios: list[float] = []
    try:
        for number in range(ROUNDS):
            rate, bare = ours(), other()
            progress.advance(task, 2)
            ratios.append(rate / bare)
            rows.append(
                {"work": name, "round": number, "Steelyard items/s": round(rate), "baseline items/s": round(bare)}
            )
    finally:
        close()
    spread = max(ratios) - min(ratios)
    return Figure(f"{name}: throughput / baseline", statistics.median(ratios), ">=", bar, spread=spread)


def ours_and_executor(items: list[Item], function: Callable[[Task, str], float]) -> Rates:
    """Compare with ``concurrent.futures``, which sends only the function's two arguments."""
    pool = ProcessPool(as_verifier(function), workers=WORKERS)
    executor = ProcessPoolExecutor(WORKERS, mp_context=get_context("forkserver"))
    arguments = [(item.task, item.sample.text) for item in items]
    list(executor.map(function, *zip(*arguments[:100], strict=True)))
    items_per_second(pool, items[:100])

    def theirs() -> float:
        began = time.perf_counter()
        futures = [executor.submit(function, *pair) for pair in arguments]
        for future in futures:
            future.result()
        return len(items) / (time.perf_counter() - began)

    def close() -> None:
        pool.close()
        executor.shutdown()

    return lambda: items_per_second(pool, items), theirs, close


def ours_and_bare_processes(items: list[Item], function: Callable[[Task, str], float]) -> Rates:
    """Compare with two processes that divide the items in advance and exchange no messages: ideal use of two cores."""
    pool = ProcessPool(as_verifier(function), workers=WORKERS)
    executor = ProcessPoolExecutor(WORKERS, mp_context=get_context("forkserver"))
    list(executor.map(tiny, [items[0].task] * 10, ["x"] * 10))
    items_per_second(pool, items[:4])

    def perfect() -> float:
        began = time.perf_counter()
        halves = [executor.submit(_all, function, len(items) // WORKERS) for _ in range(WORKERS)]
        for half in halves:
            half.result()
        return len(items) / (time.perf_counter() - began)

    def close() -> None:
        pool.close()
        executor.shutdown()

    return lambda: items_per_second(pool, items), perfect, close


def ours_and_bare_actors(items: list[Item], function: Callable[[Task, str], float]) -> Rates:
    """Compare with one actor per core, called item by item with all calls in flight."""
    from steelyard.cluster.connection import Connection
    from steelyard.cluster.pool import RayPool

    connection = Connection()
    ray = connection.ray
    pool = RayPool(as_verifier(function), workers=WORKERS)
    items_per_second(pool, items[:100])
    actors = [ray.remote(_Bare).options(num_cpus=0).remote(function) for _ in range(WORKERS)]
    ray.get([actor.verify.remote(items[0].task, "x") for actor in actors])

    def theirs() -> float:
        began = time.perf_counter()
        ray.get([actors[n % WORKERS].verify.remote(item.task, item.sample.text) for n, item in enumerate(items)])
        return len(items) / (time.perf_counter() - began)

    def close() -> None:
        pool.close()
        connection.close()

    return lambda: items_per_second(pool, items), theirs, close


class _Bare:
    def __init__(self, function: Any) -> None:
        self.function = function

    def verify(self, task: Task, text: str) -> float:
        return self.function(task, text)


def _all(function: Callable[[Task, str], float], count: int) -> int:
    task = Task("t", "p")
    for _ in range(count):
        function(task, "x")
    return count


def items_per_second(pool: Pool, items: list[Item]) -> float:
    """Return items per second, from the first submission to the last verdict."""
    began = time.perf_counter()
    pool.submit(items)
    scored = sum(verdict.status == "scored" for _, verdict in pool.completed(wait=True))
    if scored != len(items):
        raise RuntimeError(f"{scored} of {len(items)} items were scored; expected all")
    return len(items) / (time.perf_counter() - began)
