"""Runs side by side: what they make comes in the order asked for, what they say to the bar of their name."""

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
from benchmarks.framework.parallel_runs import Tell, abreast


def halved(asked: float, tell: Tell) -> tuple[float, int]:
    time.sleep(asked / 10)
    tell(asked, f"told {asked}")
    if asked < 0.5:
        raise ValueError("too small to be halved")
    return asked / 2, os.getpid()


def test_results_come_in_order_from_other_processes_and_bars_are_told() -> None:
    progress = Progress(disable=True)
    made = list(abreast(halved, {"slow": 4.0, "fast": 1.0}, progress, minutes=2.0))
    assert [half for half, _ in made] == [2.0, 0.5]
    assert os.getpid() not in {process for _, process in made}
    assert [(task.description, task.completed) for task in progress.tasks] == [
        ("slow: told 4.0", 2.0),
        ("fast: told 1.0", 1.0),
    ]


def test_what_goes_wrong_in_a_process_goes_wrong_here() -> None:
    with pytest.raises(ValueError, match="too small"):
        list(abreast(halved, {"small": 0.1}, Progress(disable=True), minutes=1.0))


def waiting(folder: str, tell: Tell) -> None:
    (Path(folder) / f"{os.getpid()}").touch()
    time.sleep(600)


KILLED = """
import sys
from rich.progress import Progress
from benchmarks.framework.parallel_runs import Tell, abreast
from tests.unit.benchmarks.test_parallel_runs import waiting
if __name__ == "__main__":
    list(abreast(waiting, {"one": sys.argv[1], "two": sys.argv[1]}, Progress(disable=True), minutes=1.0))
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="children are found in /proc, which is Linux's")
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_runs_end_with_the_process_that_began_them(by: signal.Signals, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    script = tmp_path / "begin.py"
    script.write_text(KILLED, encoding="utf-8")
    others = set(descendants())
    began = subprocess.Popen([sys.executable, script, runs], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    at_once = min(2, os.cpu_count() or 1)
    until(lambda: len(list(runs.iterdir())) == at_once)
    family = set(descendants()) - others
    assert {int(run.name) for run in runs.iterdir()} <= family
    began.send_signal(by)
    began.wait(100)
    until(lambda: not any(alive(process) for process in family))


def until(met: Callable[[], bool], seconds: float = 200.0) -> None:
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)
