"""The CI gate takes at most 25 minutes from a fresh clone on two cores, and its tests also pass on a busy machine.

Two lanes run at the same time, each with one process per core, so each puts load on the other. One lane runs `.ci/run`
from a fresh clone and then all its test stages twice more; the other lane runs the tests that involve processes, Ray,
vLLM or time seven times. The test stages include these tests too, so each of them runs ten times in total. The lane
that finishes last competes with one busy loop per core. Then two more fresh clones run on the idle machine. The
benchmark takes two hours on two cores.
"""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.progress import Progress

from benchmarks.framework.process import ROOT
from benchmarks.framework.result import Cell, Figure, Result

MINUTES = 25.0
BUSY_MINUTES = 60.0
QUICK_MINUTES = 15.0
"""`.ci/run fast` takes at most 6 minutes after installation; the rest is a margin for slower machines."""
TEST_ROUNDS = 3
CONTENDED_ROUNDS = 10 - TEST_ROUNDS
CONTENDED = (
    "tests/faults",
    "tests/e2e/test_cluster.py",
    "tests/e2e/test_stopping.py",
    "tests/unit/benchmarks/test_parallel_runs.py",
    "tests/unit/deploy/test_slurm.py",
    "tests/unit/sampling/test_vllm.py",
    "tests/unit/tracking/test_wandb.py",
    "tests/unit/training/test_asynchronous.py",
    "tests/unit/verification",
)
"""Tests that involve processes, Ray, vLLM or time."""


@dataclass(frozen=True)
class GateRun:
    """One run of `.ci/run`: exit code, minutes and output, which has a line for every stage."""

    name: str
    code: int
    minutes: float
    output: str

    def row(self) -> dict[str, Cell]:
        stages = re.findall(r"^ *(\d+) s  (.+)$", self.output.rpartition("== durations")[2], re.MULTILINE)
        shown = ", ".join(f"{name} {seconds} s" for seconds, name in stages)
        return {"run": self.name, "exit code": self.code, "minutes": round(self.minutes, 1), "stages": shown}


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version runs `.ci/run fast` from one clone."""
    task = progress.add_task("ci", total=1 if quick else 2 + TEST_ROUNDS + CONTENDED_ROUNDS)
    rows: list[dict[str, Cell]] = []
    with tempfile.TemporaryDirectory() as scratch:
        runs = quick_runs(Path(scratch)) if quick else full_runs(Path(scratch))
        idle: list[GateRun] = []
        failed = 0
        for run in runs:
            progress.update(task, description=f"{run.name}: {run.minutes:.1f} minutes", advance=1)
            progress.console.print(f"{run.name}: exit code {run.code}, {run.minutes:.1f} minutes", markup=False)
            rows.append(run.row())
            failed += run.code != 0
            idle += [run] if run.name.startswith("idle") else []
            if run.code:
                progress.console.print(run.output[-3000:], markup=False)
    longest = max(run.minutes for run in idle)
    figures = [
        Figure("longest run, idle machine", longest, "<=", QUICK_MINUTES if quick else MINUTES, "minutes"),
        Figure("runs that failed", failed, "<=", 0),
    ]
    if not quick:
        busy = [float(row["minutes"]) for row in rows if row["run"] == "busy clone"]
        figures.append(Figure("run on a busy machine", busy[0], "<=", BUSY_MINUTES, "minutes"))
    return Result("ci", tuple(figures), rows)


def quick_runs(scratch: Path) -> Iterator[GateRun]:
    yield gate("idle clone, fast", clone(scratch / "one"), "fast")


def full_runs(scratch: Path) -> Iterator[GateRun]:
    tree, venv = clone(scratch / "busy"), scratch / "venv"

    def stages() -> Iterator[GateRun]:
        yield gate("busy clone", tree, venv=venv)
        for number in range(2, TEST_ROUNDS + 1):
            yield gate(f"busy, test stages {number}", tree, venv=venv)

    def engines() -> Iterator[GateRun]:
        while not (venv / "installed").exists():
            time.sleep(1.0)
        for number in range(1, CONTENDED_ROUNDS + 1):
            yield contended(f"busy, processes and engines {number}", tree, venv)

    yield from run_lanes([stages(), engines()])
    yield gate("idle clone 1", clone(scratch / "one"))
    yield gate("idle clone 2", clone(scratch / "two"))


def run_lanes(lanes: Sequence[Iterator[GateRun]]) -> Iterator[GateRun]:
    """Yield the runs of all lanes as they finish; once the first lane is done, add one busy loop per core."""
    found: queue.Queue[GateRun | None] = queue.Queue()

    def drive(lane: Iterator[GateRun]) -> None:
        try:
            for run in lane:
                found.put(run)
        finally:
            found.put(None)

    for lane in lanes:
        threading.Thread(target=drive, args=(lane,), daemon=True).start()
    with ExitStack() as load:
        for ended in range(1, len(lanes) + 1):
            yield from iter(found.get, None)
            if ended < len(lanes):
                load.enter_context(all_cores_busy())


def clone(folder: Path) -> Path:
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    return folder


def gate(name: str, tree: Path, mode: str = "", *, venv: Path | None = None) -> GateRun:
    """Run `.ci/run` as CI does; with ``venv``, the installed packages are kept for the next run."""
    own = {} if venv is None else {"STEELYARD_CI_VENV": str(venv)}
    return _run(name, ["bash", ".ci/run", *([mode] if mode else [])], tree, own)


def contended(name: str, tree: Path, venv: Path) -> GateRun:
    command = [str(venv / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "900"]
    return _run(name, [*command, "-n", str(os.cpu_count() or 2), *CONTENDED], tree, {})


@contextmanager
def all_cores_busy() -> Iterator[None]:
    """Run one busy loop per core."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 2)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _run(name: str, command: Sequence[str], tree: Path, own: dict[str, str]) -> GateRun:
    keep = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    start = time.monotonic()
    done = subprocess.run(
        command,
        cwd=tree,
        env={**keep, "CI": "true", **own},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return GateRun(name, done.returncode, (time.monotonic() - start) / 60, done.stdout)
