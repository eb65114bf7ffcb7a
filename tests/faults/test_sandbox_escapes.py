"""Real sandbox escapes attempted at every isolation level, and callers that die mid-run."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.verification.escapes import MARK, Attempt, Escape, attempt_escape, escapes
from steelyard.verification.sandbox import Level
from tests.sandboxes import LEVELS, NEEDS_BUBBLEWRAP

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the escapes are written for Linux")
every_escape = pytest.mark.parametrize("escape", escapes(), ids=lambda escape: escape.name)

CALLER = f"""
import signal, sys
from steelyard.verification.sandbox import RunLimits, run_code
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in a shell's background has it ignored
code = '''
import os, time
print("on", flush=True)
if os.fork() == 0:
    os.setsid()
time.sleep(1000)
'''
run_code(code, level=sys.argv[1], environment={{{MARK!r}: sys.argv[2]}}, limits=RunLimits(seconds=1000))
"""


@every_escape
def test_the_escape_works_without_a_sandbox(escape: Escape) -> None:
    assert attempt_escape(escape, "without").worked, "an escape that never works tests nothing"


@NEEDS_BUBBLEWRAP
@every_escape
def test_bubblewrap_stops_the_escape(escape: Escape) -> None:
    outcome = attempt_escape(escape, "bubblewrap")
    assert not outcome.worked
    assert outcome.left_running == 0


@every_escape
def test_the_basic_stops_the_documented_escapes(escape: Escape) -> None:
    outcome = attempt_escape(escape, "basic")
    assert not (outcome.worked and escape.basic_stops)
    assert outcome.left_running == 0


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_program_and_its_folder_disappear_with_the_caller(
    level: Level, number: signal.Signals, tmp_path: Path
) -> None:
    attempt = Attempt(level, secrets.token_hex(8), tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", CALLER, level, attempt.word]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as caller:
        assert within(200, lambda: len(attempt.left_running()) >= 2), "the program did not start"
        caller.send_signal(number)
        caller.wait(200)
    assert within(200, lambda: not attempt.left_running())
    assert within(200, lambda: not list(tmp_path.iterdir()))


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Return whether the condition becomes true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.05)
    return False
