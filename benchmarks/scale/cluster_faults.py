"""A run on a cluster ends by itself at its last step, whatever part of it is killed on the way.

The run of ``cluster-learn``, smaller: two learner ranks, a vLLM replica and a Ray pool. In one run each, a sampler, a
verification actor, a learner rank or a whole node of two (a raylet, with all that is placed on it) is killed five
times, each time at a random moment of a step. Every step must be there once, with all its samples, and every loss must
be in the log.
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
STEPS_A_KILL = 2
STORE = 2**30
"""Bytes of each node for objects, the weights above all."""
TASKS, GROUP = 2, 4
NODE = "node"
ACTORS = {"sampler": "SamplerStation", "verification actor": "Station", "learner rank": "LearnerRank"}
"""What is killed, and the class of the actor, which Ray writes into the command line of its process."""
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
    """Keeps the messages of a run."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def measure(quick: bool, progress: Progress) -> Result:
    """Quick: a node is removed once, from a run in float32."""
    tables = {**SMALL, **learn_smol.IN_FLOAT32} if quick else SMALL
    kinds, kills = ((NODE,), 1) if quick else ((*ACTORS, NODE), KILLS)
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(16))  # Ray reads it once: the same for all clusters
    bar = progress.add_task("cluster-faults", total=len(kinds) * kills)
    rows: list[dict[str, Cell]] = []
    for number, kind in enumerate(kinds):

        def tell(done: int, number: int = number, kind: str = kind) -> None:
            progress.update(bar, completed=number * kills + done, description=f"{kind} killed {done} times")

        with machines(kind) as (address, kill):
            rows.append(sabotaged(kind, kills, address, tables, kill, tell))
    whole = sum(row["ended"] == "yes" for row in rows)
    return Result(
        "cluster-faults",
        (
            Figure("runs that end by themselves", whole / len(rows), ">=", 1.0),
            Figure("steps missing or twice", sum(int(row["steps wrong"]) for row in rows), "<=", 0),
            Figure("steps without all their samples", sum(int(row["samples wrong"]) for row in rows), "<=", 0),
            Figure("kills that no line of the log tells of", sum(int(row["untold"]) for row in rows), "<=", 0),
            Figure("kills of each kind", min(int(row["killed"]) for row in rows), ">=", kills),
        ),
        rows,
    )


def sabotaged(
    kind: str,
    kills: int,
    address: str,
    tables: Mapping[str, Any],
    kill: Callable[[], None],
    tell: Callable[[int], None],
) -> dict[str, Cell]:
    """One run, of which something is killed at a random moment after every other step."""
    from steelyard.folders import run_folder
    from steelyard.run import run

    steps = STEPS_A_KILL * (kills + 1)
    log, killed = Log(), list[float]()
    logging.getLogger("steelyard").addHandler(log)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        changes = {**tables, "cluster": {**tables["cluster"], "address": address}}
        config, supplied = learn_smol.run_settings(0, steps, 8, TASKS, scratch, changes)
        folder = run_folder(config)
        saboteur = threading.Thread(target=_sabotage, args=(folder, kills, kill, killed, tell), daemon=True)
        saboteur.start()
        try:
            ended = run(config, supplied, resume=False).step == steps
        finally:
            logging.getLogger("steelyard").removeHandler(log)
        rows = logged(folder)
    told = {name: sum(text in message for message in log.messages) for name, text in LOSSES.items()}
    seen = [row["step"] for row in rows]
    return {
        "killed part": kind,
        "killed": len(killed),
        "ended": "yes" if ended else "no",
        "steps": len(rows),
        "steps wrong": len(set(range(1, steps + 1)) ^ set(seen)) + len(seen) - len(set(seen)),
        "samples wrong": sum(row["samples"] != TASKS * GROUP for row in rows),
        **{f"log: {name} lost": count for name, count in told.items()},
        "untold": max(0, len(killed) - (max(told.values()) if kind == NODE else told[kind])),
        "minutes": (time.perf_counter() - began) / 60,
    }


def _sabotage(
    folder: Path, kills: int, kill: Callable[[], None], killed: list[float], tell: Callable[[int], None]
) -> None:
    """After every second step, within the time that a step takes."""
    rng, last = random.Random(0), time.monotonic()
    for number in range(kills):
        while len(logged(folder)) < STEPS_A_KILL * (number + 1):
            time.sleep(0.05)
        step_seconds, last = min(20.0, (time.monotonic() - last) / STEPS_A_KILL), time.monotonic()
        time.sleep(rng.uniform(0, step_seconds))
        kill()
        killed.append(time.monotonic())
        tell(len(killed))


def logged(folder: Path) -> list[dict[str, Any]]:
    from steelyard.tracking import read_metrics

    path = folder / "metrics.jsonl"
    return read_metrics(path) if path.exists() else []


@contextmanager
def machines(kind: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Where the run's cluster is, and what kills the part."""
    if kind != NODE:
        yield "local", lambda: kill_actor(ACTORS[kind])
        return
    from ray.cluster_utils import Cluster

    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": STORE}
    cluster: Any = Cluster(initialize_head=True, head_node_args=node, shutdown_at_exit=False)
    nodes = [cluster.add_node(**node)]

    def remove() -> None:
        """A node goes, and a new one comes in its place."""
        cluster.remove_node(nodes.pop(), allow_graceful=False)
        nodes.append(cluster.add_node(**node))

    try:
        yield cluster.address, remove
    finally:
        cluster.shutdown()


def kill_actor(name: str) -> None:
    """One process of the class, as soon as there is one."""
    while not (found := processes(name)):
        time.sleep(0.05)
    os.kill(random.choice(found), signal.SIGKILL)


def processes(name: str) -> list[int]:
    """Ray's actors of a class that descend from this process: another run on the machine has such actors too."""
    return [pid for pid in descendants() if command_of(pid).startswith(f"ray::{name}")]
