"""Long-running work is reported in a log after half a minute, then rarely, even if it reports nothing itself."""

from __future__ import annotations

import threading

import pytest

from steelyard.tracking.bars import progress_bar, stages
from steelyard.tracking.heartbeat import Heartbeat


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def report_times(seconds: range, *, restart_at: int | None = None) -> list[float]:
    clock, reports = Clock(), list[float]()
    heartbeat = Heartbeat(reports.append, clock=clock)
    for second in seconds:
        clock.now = float(second)
        if second == restart_at:
            heartbeat.restart()
            heartbeat.stop()
        heartbeat.check()
    return reports


def test_the_first_report_comes_after_half_a_minute_and_later_ones_rarely() -> None:
    assert report_times(range(30)) == []
    assert report_times(range(3000)) == [30, 60, 120, 240, 480, 960, 1560, 2160, 2760]


def test_a_restart_resets_the_time_to_the_first_report() -> None:
    assert report_times(range(80), restart_at=29) == [30]


def test_a_thread_checks_the_clock_until_it_is_stopped() -> None:
    reported = threading.Event()
    heartbeat = Heartbeat(lambda _: reported.set(), first=0.0, poll_seconds=0.001)
    assert not reported.wait(0.05), "nothing has started"
    heartbeat.restart()
    assert reported.wait(60)
    heartbeat.stop()
    assert "heartbeat" not in [thread.name for thread in threading.enumerate()]


def test_a_line_that_cannot_be_written_is_ignored() -> None:
    tried = threading.Event()

    def broken(_: float) -> None:
        tried.set()
        raise BrokenPipeError

    heartbeat = Heartbeat(broken, first=0.0, poll_seconds=0.001)
    heartbeat.restart()
    assert tried.wait(60)
    heartbeat.stop()


def wait_for(capsys: pytest.CaptureFixture[str], clock: Clock, seconds: float) -> str:
    """Set the clock and return the lines that the heartbeat's thread then prints."""
    clock.now, text = seconds, ""
    pause = threading.Event()
    for _ in range(6000):
        if text := text + capsys.readouterr().err:
            break
        pause.wait(0.01)
    return text


def test_a_bar_without_a_terminal_prints_its_progress(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with progress_bar("warm start", 40, "update", clock=clock) as advance:
        assert capsys.readouterr().err == "warm start: 40 updates\n"
        for _ in range(10):
            advance("1.234 nat per token")
        line = wait_for(capsys, clock, 60.0)
    assert line == "warm start: 10/40 updates  1:00 elapsed  about 3:00 left  1.234 nat per token\n"


def test_a_stage_that_takes_long_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with stages("loading the model", clock=clock) as stage:
        assert wait_for(capsys, clock, 45.0) == "loading the model  0:45 elapsed\n"
        stage("reading the tasks")
        assert wait_for(capsys, clock, 80.0) == "reading the tasks  0:35 elapsed\n"
    with stages("loading the model", shown=False, clock=clock) as stage:
        stage("reading the tasks")
        clock.now = 200.0
    assert capsys.readouterr().err == ""
