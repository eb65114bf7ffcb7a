"""A run on a cluster finishes no matter which of its components is killed during training.

It is a smaller version of the ``cluster-learn`` run, with two learner ranks, a vLLM replica and a Ray pool. Each run
kills one component five times, at random moments: a sampler, a verification actor, a learner rank, or one of two nodes
(a raylet with everything placed on it). Every step must occur once, with all its samples, and every loss must be
logged.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import Progress

from benchmarks.framework.orphans import command_of, descendants
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.learning import learn_smol
from benchmarks.scale.cluster_learn import ON_CLUSTER

KILLS = 5
STEPS_PER_KILL = 2
STORE = 2**30
"""Size of each node's object store in bytes; it mainly holds the weights."""
TASKS, GROUP = 2, 4
NODE = "node"
ACTORS = {"sampler": "SamplerActor", "verification actor": "VerifierActor", "learner rank": "LearnerRank"}
"""The components to kill and their actor classes, which Ray writes to the command lines of their processes."""
LOSSES = {
    "sampler": "a sampler was lost",
    "verification actor": "a verification actor was lost",
    "learner rank": "the learner group has stopped",
}
SMALL = {
    **ON_CLUSTER,
    "sampling": {**ON_CLUSTER["sampling"], "group_size": GROUP, "max_new_tokens": 24},
    "evaluate": {"every": 0},
    "checkpoint": {"every": 1},
}


class Log(logging.Handler):
    """Collects a run's warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version removes a node once, from a run in float32."""
    tables = {**SMALL, **learn_smol.IN_FLOAT32} if quick else SMALL
    kinds, kills = ((NODE,), 1) if quick else ((*ACTORS, NODE), KILLS)
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(16))  # Ray reads the token once, so all clusters share it
    bar = progress.add_task("cluster-faults", total=len(kinds) * kills)
    rows: list[dict[str, Cell]] = []
    for number, kind in enumerate(kinds):

        def report_kills(done: int, number: int = number, kind: str = kind) -> None:
            progress.update(bar, completed=number * kills + done, description=f"{kind} killed {done} times")

        with cluster_for(kind) as (address, kill):
            rows.append(run_with_kills(kind, kills, address, tables, kill, report_kills))
    finished = sum(row["finished"] == "yes" for row in rows)
    return Result(
        "cluster-faults",
        (
            Figure("share of runs that finish", finished / len(rows), ">=", 1.0),
            Figure("steps missing or repeated", sum(int(row["steps wrong"]) for row in rows), "<=", 0),
            Figure("steps with missing samples", sum(int(row["samples wrong"]) for row in rows), "<=", 0),
            Figure("kills missing in the log", sum(int(row["not in the log"]) for row in rows), "<=", 0),
            Figure("fewest kills of a kind", min(int(row["killed"]) for row in rows), ">=", kills),
        ),
        rows,
    )


def run_with_kills(
    kind: str,
    kills: int,
    address: str,
    tables: Mapping[str, Any],
    kill: Callable[[], None],
    report_kills: Callable[[int], None],
) -> dict[str, Cell]:
    """Run once, and kill the component at a random moment after every second step."""
    from steelyard.folders import run_folder
    from steelyard.run import run

    steps = STEPS_PER_KILL * (kills + 1)
    log, killed = Log(), list[float]()
    logging.getLogger("steelyard").addHandler(log)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        changes = {**tables, "cluster": {**tables["cluster"], "address": address}}
        config, supplied = learn_smol.run_settings(0, steps, 8, TASKS, scratch, changes)
        folder = run_folder(config)
        arguments = (folder, kills, kill, killed, report_kills)
        killer = threading.Thread(target=_kill_repeatedly, args=arguments, daemon=True)
        killer.start()
        try:
            finished = run(config, supplied, resume=False).step == steps
        finally:
            logging.getLogger("steelyard").removeHandler(log)
        rows = logged(folder)
    losses = {name: sum(text in message for message in log.messages) for name, text in LOSSES.items()}
    seen = [row["step"] for row in rows]
    return {
        "killed part": kind,
        "killed": len(killed),
        "finished": "yes" if finished else "no",
        "steps": len(rows),
        "steps wrong": len(set(range(1, steps + 1)) ^ set(seen)) + len(seen) - len(set(seen)),
        "samples wrong": sum(row["samples"] != TASKS * GROUP for row in rows),
        **{f"log: {name} lost": count for name, count in losses.items()},
        "not in the log": max(0, len(killed) - (max(losses.values()) if kind == NODE else losses[kind])),
        "minutes": (time.perf_counter() - began) / 60,
    }


def _kill_repeatedly(
    folder: Path, kills: int, kill: Callable[[], None], killed: list[float], report_kills: Callable[[int], None]
) -> None:
    """Kill after every second step, at a random moment within the duration of a step."""
    rng, last = random.Random(0), time.monotonic()
    for number in range(kills):
        while len(logged(folder)) < STEPS_PER_KILL * (number + 1):
            time.sleep(0.05)
        step_seconds, last = min(20.0, (time.monotonic() - last) / STEPS_PER_KILL), time.monotonic()
        time.sleep(rng.uniform(0, step_seconds))
        kill()
        killed.append(time.monotonic())
        report_kills(len(killed))


def logged(folder: Path) -> list[dict[str, Any]]:
    from steelyard.tracking import read_metrics

    path = folder / "metrics.jsonl"
    return read_metrics(path) if path.exists() else []


@contextmanager
def cluster_for(kind: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the address of the run's cluster, and a function that kills the component."""
    if kind != NODE:
        yield "local", lambda: kill_actor(ACTORS[kind])
        return
    from ray.cluster_utils import Cluster

    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": STORE}
    cluster: Any = Cluster(initialize_head=True, head_node_args=node, shutdown_at_exit=False)
    nodes = [cluster.add_node(**node)]

    def remove() -> None:
        """Remove a node and add a new one."""
        cluster.remove_node(nodes.pop(), allow_graceful=False)
        nodes.append(cluster.add_node(**node))

    try:
        yield cluster.address, remove
    finally:
        cluster.shutdown()


def kill_actor(name: str) -> None:
    """Kill one process of the actor class as soon as one exists."""
    while not (found := processes(name)):
        time.sleep(0.05)
    os.kill(random.choice(found), signal.SIGKILL)


def processes(name: str) -> list[int]:
    """Return the Ray actors of the given class that descend from this process, ignoring those of other runs."""
    return [pid for pid in descendants() if command_of(pid).startswith(f"ray::{name}")]
