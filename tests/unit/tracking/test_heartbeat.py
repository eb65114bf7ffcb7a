"""A log says what takes long: after half a minute, then rarely, and also when nothing is reported."""

from __future__ import annotations

import threading

import pytest

from steelyard.tracking.bars import counting, stages
from steelyard.tracking.heartbeat import Heartbeat


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def told(seconds: range, *, restart_at: int | None = None) -> list[float]:
    clock, said = Clock(), list[float]()
    heartbeat = Heartbeat(said.append, clock=clock)
    for second in seconds:
        clock.now = float(second)
        if second == restart_at:
            heartbeat.restart()
            heartbeat.stop()
        heartbeat.look()
    return said


def test_first_after_half_a_minute_and_then_rarely() -> None:
    assert told(range(30)) == []
    assert told(range(3000)) == [30, 60, 120, 240, 480, 960, 1560, 2160, 2760]


def test_what_begins_anew_has_its_half_minute_again() -> None:
    assert told(range(80), restart_at=29) == [30]


def test_a_thread_looks_at_the_clock_until_it_is_stopped() -> None:
    said = threading.Event()
    heartbeat = Heartbeat(lambda _: said.set(), first=0.0, look_seconds=0.001)
    assert not said.wait(0.05), "nothing has begun"
    heartbeat.restart()
    assert said.wait(60)
    heartbeat.stop()
    assert "heartbeat" not in [thread.name for thread in threading.enumerate()]


def test_a_line_that_cannot_be_written_harms_nobody() -> None:
    tried = threading.Event()

    def broken(_: float) -> None:
        tried.set()
        raise BrokenPipeError

    heartbeat = Heartbeat(broken, first=0.0, look_seconds=0.001)
    heartbeat.restart()
    assert tried.wait(60)
    heartbeat.stop()


def wait_for(capsys: pytest.CaptureFixture[str], clock: Clock, seconds: float) -> str:
    """The lines that the heartbeat's own thread prints once the clock shows this."""
    clock.now, text = seconds, ""
    pause = threading.Event()
    for _ in range(6000):
        if text := text + capsys.readouterr().err:
            break
        pause.wait(0.01)
    return text


def test_a_bar_without_a_terminal_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with counting("warm start", 40, clock=clock) as advance:
        assert capsys.readouterr().err == "warm start (40)\n"
        for _ in range(10):
            advance("1.234 nat per token")
        line = wait_for(capsys, clock, 60.0)
    assert line == "warm start 10/40  1:00 so far  about 3:00 left  1.234 nat per token\n"


def test_a_stage_that_takes_long_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with stages("loading the model", clock=clock) as stage:
        assert wait_for(capsys, clock, 45.0) == "loading the model  0:45 so far\n"
        stage("reading the tasks")
        assert wait_for(capsys, clock, 80.0) == "reading the tasks  0:35 so far\n"
    with stages("loading the model", shown=False, clock=clock) as stage:
        stage("reading the tasks")
        clock.now = 200.0
    assert capsys.readouterr().err == ""
