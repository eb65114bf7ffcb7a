"""Signals: the first requests a stop, a second has its usual effect, and an ignored signal stays ignored."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.compose import build_policy, start_run
from steelyard.compose import judge as judges
from steelyard.compose import warmstart as warmstarts
from steelyard.compose.warmstart import make_warm_start, warm_start_folder
from steelyard.errors import StoppedError
from steelyard.training.stopping import SIGNALS, StopRequest, stopping_on_signals
from tests.small_infill import config_of


def wait_for_acknowledgement(capsys: pytest.CaptureFixture[str]) -> str:
    text, deadline = "", time.monotonic() + 60
    while not text.endswith("\n"):
        assert time.monotonic() < deadline, "no acknowledgement"
        time.sleep(0.001)
        text += capsys.readouterr().err
    return text


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_requests_a_stop_and_the_second_acts_as_usual(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    usual: list[int] = []
    before = signal.signal(number, lambda got, _: usual.append(got))
    try:
        stop = StopRequest()
        with stopping_on_signals(stop.request):
            assert not stop.requested
            os.kill(os.getpid(), number)
            assert stop.requested
            assert usual == []
            message = wait_for_acknowledgement(capsys)
            assert message == "finishing this step; press Ctrl-C again to stop now\n"
            os.kill(os.getpid(), number)
            assert usual == [number]
        os.kill(os.getpid(), number)
        assert usual == [number, number]
    finally:
        signal.signal(number, before)


def test_a_signal_in_the_middle_of_a_write_is_acknowledged_without_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupted code holds the lock that the acknowledgement needs."""
    written: list[str] = []
    lock = threading.Lock()

    class Locked(io.StringIO):
        def write(self, text: str) -> int:
            if lock.acquire(timeout=5):
                written.append(text)
                lock.release()
            return len(text)

    monkeypatch.setattr("sys.stderr", Locked())
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    stop = StopRequest()
    try:
        with stopping_on_signals(stop.request, "update"):
            with lock:
                os.kill(os.getpid(), signal.SIGTERM)
                assert stop.requested
            deadline = time.monotonic() + 60
            while not written:
                assert time.monotonic() < deadline
                time.sleep(0.001)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert written == ["finishing this update; press Ctrl-C again to stop now\n"]


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        stop = StopRequest()
        with stopping_on_signals(stop.request):
            os.kill(os.getpid(), signal.SIGHUP)
        assert not stop.requested
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.fixture
def unhandled() -> Iterator[None]:
    """Make an unhandled signal fail the test instead of the whole session."""

    def fail(number: int, _frame: object) -> None:
        raise AssertionError(f"{signal.Signals(number).name} was not handled")

    before = signal.signal(signal.SIGHUP, fail)
    yield
    signal.signal(signal.SIGHUP, before)


def signalling(function, at: int):
    """Wrap a function so that its ``at``-th call sends SIGHUP to this process."""
    calls: list[int] = []

    def called(*arguments):
        calls.append(0)
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGHUP)
        return function(*arguments)

    return called


@pytest.mark.usefixtures("unhandled")
def test_an_interrupted_warm_start_continues_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path, warmstart={"examples": 20, "batch": 4, "warmup_steps": 1}, judge=None)
    warmstart = config.warmstart
    assert warmstart is not None
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    make_warm_start(config, warmstart, build_policy(config), whole)
    monkeypatch.setattr(warmstarts, "loss_of", signalling(warmstarts.loss_of, 2))
    with pytest.raises(StoppedError, match="update 2 of 5"):
        make_warm_start(config, warmstart, build_policy(config), broken)
    assert not broken.exists()
    monkeypatch.setattr(warmstarts, "loss_of", signalling(warmstarts.loss_of, 3))
    with pytest.raises(StoppedError, match="after the warm start"):  # the signal arrives at the last update
        make_warm_start(config, warmstart, build_policy(config), broken)
    assert (broken / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "whole"]


@pytest.mark.usefixtures("unhandled")
def test_a_run_stopped_while_its_judge_is_trained_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(tmp_path)
    monkeypatch.setattr(judges, "sample", signalling(judges.sample, 1))
    with pytest.raises(StoppedError, match="judge"):
        start_run(config)
    assert (tmp_path / "run" / "config.toml").is_file()
    assert warm_start_folder(config).is_dir()
    assert not (tmp_path / "run" / "judge").exists()
