"""Parallel jobs: outcomes are returned in job order, and each job updates its own progress bar."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.progress import Progress

from benchmarks.framework.orphans import alive, descendants
from benchmarks.framework.parallel_runs import ReportProgress, run_in_parallel


def halve(number: float, report_progress: ReportProgress) -> tuple[float, int]:
    time.sleep(number / 10)
    report_progress(number, f"halving {number}")
    if number < 0.5:
        raise ValueError("cannot halve a number below 0.5")
    return number / 2, os.getpid()


def test_outcomes_come_in_order_from_other_processes_and_progress_is_shown() -> None:
    progress = Progress(disable=True)
    outcomes = list(run_in_parallel(halve, {"slow": 4.0, "fast": 1.0}, progress, minutes=2.0))
    assert [half for half, _ in outcomes] == [2.0, 0.5]
    assert os.getpid() not in {process for _, process in outcomes}
    assert [(task.description, task.completed) for task in progress.tasks] == [
        ("slow: halving 4.0", 2.0),
        ("fast: halving 1.0", 1.0),
    ]


def test_an_error_in_a_process_is_raised_here() -> None:
    with pytest.raises(ValueError, match="cannot halve"):
        list(run_in_parallel(halve, {"small": 0.1}, Progress(disable=True), minutes=1.0))


def wait(folder: str, report_progress: ReportProgress) -> None:
    (Path(folder) / f"{os.getpid()}").touch()
    time.sleep(600)


KILLED = """
import sys
from rich.progress import Progress
from benchmarks.framework.parallel_runs import run_in_parallel
from tests.unit.benchmarks.test_parallel_runs import wait
if __name__ == "__main__":
    list(run_in_parallel(wait, {"one": sys.argv[1], "two": sys.argv[1]}, Progress(disable=True), minutes=1.0))
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="children are found in /proc, which only Linux has")
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_jobs_end_with_the_process_that_started_them(by: signal.Signals, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    script = tmp_path / "start.py"
    script.write_text(KILLED, encoding="utf-8")
    others = set(descendants())
    parent = subprocess.Popen(
        [sys.executable, script, runs], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    concurrent = min(2, os.cpu_count() or 1)
    until(lambda: len(list(runs.iterdir())) == concurrent)
    family = set(descendants()) - others
    assert {int(run.name) for run in runs.iterdir()} <= family
    parent.send_signal(by)
    parent.wait(100)
    until(lambda: not any(alive(process) for process in family))


def until(met: Callable[[], bool], seconds: float = 200.0) -> None:
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.05)
