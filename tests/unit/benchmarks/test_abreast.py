"""Runs side by side: what they make comes in the order asked for, what they say to the bar of their name."""

from __future__ import annotations

import os
import time

import pytest
from rich.progress import Progress

from benchmarks.abreast import abreast
from benchmarks.watched import Tell


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
