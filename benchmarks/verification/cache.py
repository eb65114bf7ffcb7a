"""A second, identical run verifies nothing, and a cache shared by runs killed at random stays intact."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.progress import Progress

from benchmarks.framework.process import ROOT
from benchmarks.framework.result import Figure, Result
from steelyard.types import Task, Verdict
from steelyard.verification import VerdictCache, verifier

KILLS, QUICK_KILLS = 25, 4
STEPS, LONG = 6, 1000


@verifier(version="1", deterministic=True)
def counted(_task: Task, text: str) -> Verdict:
    """Score by length, and append a line to a file on every call."""
    with Path(os.environ["STEELYARD_COUNTED"]).open("a", encoding="utf-8") as file:
        file.write("called\n")
    return Verdict.scored(len(text) / 16, success=len(text) > 8)


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version takes 4 kills instead of 25."""
    kills = QUICK_KILLS if quick else KILLS
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        calls, differing = run_twice(folder, progress)
        unreadable, rows = kill_writers(folder, kills, progress)
    figures = (
        Figure("items verified by a second identical run", calls, "<=", 0),
        Figure("metrics that differ between the runs", differing, "<=", 0),
        Figure("times the file was unreadable after two writers were killed", unreadable, "<=", 0),
        Figure("verdicts kept through the kills", rows, ">=", 16 * kills),
    )
    return Result("cache", figures)


def run_twice(folder: Path, progress: Progress) -> tuple[int, int]:
    """Return how often the second run called the verifier, and how many of its metrics differ from the first run's."""
    task = progress.add_task("the same run twice", total=2)
    calls: list[int] = []
    metrics: list[list[dict[str, object]]] = []
    for name in ("first", "second"):
        count = folder / f"{name}.calls"
        count.touch()
        start(folder, name, folder / "verdicts.sqlite", count, seed=0).wait()
        calls.append(len(count.read_text().splitlines()))
        lines = (folder / name / "metrics.jsonl").read_text().splitlines()
        metrics.append([_timeless(json.loads(line)) for line in lines])
        progress.advance(task)
    if not calls[0]:
        raise RuntimeError("the first run verified nothing, so the second run proves nothing; check the verifier")
    differing = sum(one != other for one, other in zip(*metrics, strict=True))
    return calls[1], differing


def kill_writers(folder: Path, kills: int, progress: Progress) -> tuple[int, int]:
    """Let two runs write to one file and kill both at a random moment, repeatedly."""
    task = progress.add_task("killed", total=kills)
    path, dice, unreadable = folder / "shared.sqlite", random.Random(0), 0
    for number in range(kills):
        counts = [folder / f"{number}-{writer}.calls" for writer in "ab"]
        runs = [
            start(folder, count.stem, path, count, seed=2 * number + place, steps=LONG)
            for place, count in enumerate(counts)
        ]
        wait_for(counts)
        time.sleep(dice.uniform(0.0, 0.5))
        for run in runs:
            run.send_signal(signal.SIGKILL)
            run.wait()
        unreadable += not readable(path)
        progress.advance(task)
    return unreadable, len(VerdictCache(path))


def wait_for(counts: list[Path]) -> None:
    """Wait until both runs have verified something so that the kill lands between their writes."""
    deadline = time.monotonic() + 120
    while not all(count.exists() and count.stat().st_size for count in counts):
        if time.monotonic() > deadline:
            raise RuntimeError("a run did not start verifying within two minutes")
        time.sleep(0.01)


def readable(path: Path) -> bool:
    """Whether SQLite finds the file intact and every verdict in it can be read."""
    connection = sqlite3.connect(path)
    try:
        intact = connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        verdicts = connection.execute("SELECT verdict FROM verdicts").fetchall()
        return intact and all(Verdict.from_json(json.loads(text)).status == "scored" for (text,) in verdicts)
    except (sqlite3.DatabaseError, ValueError):
        return False
    finally:
        connection.close()


def start(folder: Path, name: str, cache: Path, count: Path, seed: int, steps: int = STEPS) -> subprocess.Popen[bytes]:
    """Start a short training run in a separate process."""
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE, encoding="utf-8")
    settings = {"run.folder": folder, "run.name": name, "run.seed": seed, "run.steps": steps, "verify.cache": cache}
    # A recipe in another folder may not refer to code, so the verifier is passed as an override.
    settings["verify.verifier"] = "benchmarks.verification.cache:counted"
    options = [word for key, value in settings.items() for word in (f"--{key}", str(value))]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "STEELYARD_COUNTED": str(count), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "steelyard.cli", "train", str(recipe), *options]
    return subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _timeless(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if not name.startswith(("time/", "cache/"))}


RECIPE = f"""
[run]
steps = {STEPS}
[model]
device = "cpu"
[model.scratch]
layers = 2
width = 32
heads = 2
max_length = 64
spaced = false
vocabulary = ["a", "b", "c", "d"]
[tasks]
prompts = ["a", "b", "c", "d"]
[verify]
pool = "processes"
workers = 1
[sampling]
tasks_per_step = 4
group_size = 8
max_new_tokens = 16
[checkpoint]
every = 0
[tracking]
console = false
"""
