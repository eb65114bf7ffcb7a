"""Everything a new user tries in the first hour works, starting from the README in a fresh virtualenv.

Each trial is a program that types what a person would type, checks the output and is timed. The virtualenv gets the
newest releases the project's requirements allow, not those in the lock file.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.progress import Progress

from benchmarks.experience.first_use_trials import TRIALS, Workspace
from benchmarks.framework.process import ROOT
from benchmarks.framework.result import Cell, Figure, Result

QUICK = ("a user's own script", "a verifier that always fails")


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version runs a few trials with the packages installed here."""
    trials = [trial for trial in TRIALS if not quick or trial.name in QUICK]
    task = progress.add_task("first-use", total=len(trials) + (not quick))
    rows: list[dict[str, Cell]] = []
    with tempfile.TemporaryDirectory() as scratch:
        programs = Path(sys.executable).parent
        if not quick:
            progress.update(task, description="installing into a fresh virtualenv")
            seconds = install(Path(scratch) / "venv")
            rows.append({"trial": "install", "item": "", "seconds": round(seconds), "problem": ""})
            programs = Path(scratch) / "venv" / "bin"
            progress.advance(task)
        workspace = Workspace(programs, Path(scratch) / "work")
        for trial in trials:
            progress.update(task, description=trial.name)
            start = time.monotonic()
            problem = trial.attempt(workspace)
            seconds = round(time.monotonic() - start, 1)
            rows.append({"trial": trial.name, "item": trial.item, "seconds": seconds, "problem": problem or ""})
            progress.advance(task)
    failed = sum(bool(row["problem"]) for row in rows)
    return Result(
        "first-use", (Figure("trials that failed", failed, "<=", 0), Figure("trials", len(rows), ">=", 1)), rows
    )


def install(venv: Path) -> float:
    """Install the package and return the seconds taken. torch comes first: other packages pull in its CUDA build."""
    start = time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    for packages in (["torch==2.13.0"], [f"{ROOT}[grammars,gguf,pictures]"], ["nbclient", "ipykernel", "pandas"]):
        subprocess.run([str(venv / "bin" / "pip"), "install", "-q", *packages], check=True, capture_output=True)
    return time.monotonic() - start
