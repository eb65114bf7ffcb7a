"""When workers are killed at random during verification, no item is lost, counted twice, or blamed for the kill.

SIGKILL hits the process pool's workers and supervisors, Ray actors, and a whole Ray node.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.progress import Progress

from benchmarks.framework.orphans import parent_of, pool_processes, wait_for_pool_processes
from benchmarks.framework.result import Figure, Result
from benchmarks.verification import misbehaving
from steelyard.types import Task
from steelyard.verification import Pool, ProcessPool, as_verifier

KILLS, QUICK_KILLS = 50, 10
ACTOR_KILLS, QUICK_ACTOR_KILLS = 50, 2
EVERY = 0.25
"""Average number of seconds between kills."""
WORKERS = 2
SUPERVISORS = 0.2
"""Probability that a supervisor is killed instead of a worker; such kills are not counted."""


def slow_verifier(_task: Task, text: str) -> float:
    """Take a few milliseconds and return the item's number so that mixed-up items are detected."""
    time.sleep(0.004)
    return float(text)


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version kills 10 workers and 2 actors."""
    figures = [
        *in_processes(QUICK_KILLS if quick else KILLS, progress),
        *on_ray(QUICK_ACTOR_KILLS if quick else ACTOR_KILLS, progress),
        *node(progress),
    ]
    return Result("worker-kills", tuple(figures))


def in_processes(kills: int, progress: Progress) -> list[Figure]:
    """Kill ``kills`` workers and, every fifth time, also a supervisor."""
    task = progress.add_task("processes", total=kills)
    pool = ProcessPool(as_verifier(slow_verifier), workers=WORKERS)
    dice = random.Random(0)

    def kill() -> bool:
        supervisors = [pid for pid in pool_processes() if parent_of(pid) == os.getpid()]
        workers = [pid for pid in pool_processes() if parent_of(pid) in supervisors]
        with suppress(ProcessLookupError, IndexError):
            if dice.random() < SUPERVISORS:
                os.kill(dice.choice(supervisors), signal.SIGKILL)
                return False  # not counted
            os.kill(dice.choice(workers), signal.SIGKILL)
            progress.advance(task)
            return True
        return False

    try:
        count = until_killed(pool, kills, kill)
    finally:
        pool.close()
    return [*_figures("", kills, count), Figure("processes left after closing", wait_for_pool_processes(0), "<=", 0)]


def on_ray(kills: int, progress: Progress) -> list[Figure]:
    from steelyard.cluster.pool import RayPool

    task = progress.add_task("Ray actors", total=kills)
    pool = RayPool(as_verifier(slow_verifier), workers=WORKERS, workers_per_actor=1)
    dice = random.Random(1)

    def kill() -> bool:
        with suppress(ProcessLookupError, IndexError, pool.ray.exceptions.RayError):
            os.kill(dice.choice(pool.actor_processes()), signal.SIGKILL)
            progress.advance(task)
            return True
        return False

    try:
        count = until_killed(pool, kills, kill, pause=2.0)
    finally:
        pool.close()
    return [
        *_figures("on Ray: ", kills, count),
        Figure("on Ray: processes left after closing", wait_for_pool_processes(0), "<=", 0),
    ]


def node(progress: Progress) -> list[Figure]:
    """Put half of the workers on a second node, kill that node, and add another."""
    from steelyard.cluster.pool import RayPool

    task = progress.add_task("Ray node", total=1)
    with two_nodes() as (cluster, address):
        second = cluster.add_node(num_cpus=1)
        pool = RayPool(as_verifier(slow_verifier), address=address, workers=2, workers_per_actor=1)

        def kill() -> bool:
            cluster.remove_node(second, allow_graceful=False)
            cluster.add_node(num_cpus=1)
            progress.advance(task)
            return True

        try:
            count = until_killed(pool, 1, kill, pause=4.0)
            lost = pool.metrics().get("pool/actors_lost", 0.0)
        finally:
            pool.close()
    return [*_figures("node killed: ", 1, count), Figure("node killed: actors lost", lost, ">=", 1)]


def until_killed(pool: Pool, kills: int, kill: Callable[[], bool], pause: float = EVERY) -> Counter[str]:
    """Keep the pool busy until all kills are done and all items are back, and count what happened to the items."""
    dice = random.Random(2)
    seen: Counter[int] = Counter()
    count: Counter[str] = Counter()
    submitted, done, next_kill = 0, 0, time.monotonic() + 2 * pause
    while done < kills:
        if submitted - len(seen) < 2000:
            pool.submit([misbehaving.item(number, str(number)) for number in range(submitted, submitted + 200)])
            submitted += 200
        _take(pool, wait=False, seen=seen, count=count)
        if time.monotonic() >= next_kill:
            done += kill()
            next_kill = time.monotonic() + pause * (0.5 + dice.random())
        time.sleep(0.01)
    _take(pool, wait=True, seen=seen, count=count)
    count["items"], count["kills"] = submitted, done
    count["lost"] = submitted - len(seen)
    count["twice"] = sum(times - 1 for times in seen.values())
    return count


def _take(pool: Pool, *, wait: bool, seen: Counter[int], count: Counter[str]) -> None:
    for key, verdict in pool.completed(wait=wait):
        seen[key.slot] += 1
        if verdict.status != "scored":
            count["blamed"] += 1
        elif verdict.reward != key.slot:
            count["mixed up"] += 1


def _figures(where: str, kills: int, count: Counter[str]) -> list[Figure]:
    share = count["blamed"] / max(count["items"], 1)
    return [
        Figure(f"{where}kills", count["kills"], ">=", kills),
        Figure(f"{where}items", count["items"], ">=", 1),
        Figure(f"{where}lost", count["lost"], "<=", 0),
        Figure(f"{where}counted twice", count["twice"], "<=", 0),
        Figure(f"{where}verdicts of another item", count["mixed up"], "<=", 0),
        Figure(f"{where}share not scored after two kills", share, "<=", 0.001),
    ]


@contextmanager
def two_nodes() -> Iterator[tuple[Any, str]]:
    """Start a real cluster on this machine: a head node with one core, to which more nodes can be added."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        yield cluster, str(cluster.address)
    finally:
        cluster.shutdown()
