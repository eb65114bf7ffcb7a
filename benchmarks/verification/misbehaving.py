"""A verifier that misbehaves in every possible way, item by item, and the verdict each way must lead to.

The sample's text selects the misbehaviour. Nothing is simulated: the process really crashes, hangs, forks and fills
memory.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from steelyard.errors import Invalid
from steelyard.types import Decisions, Sample, SampleKey, Task
from steelyard.verification import Item, WorkerLimits

FINE = "fine"
REWARD = 0.5
LIMITS = WorkerLimits(seconds=1.0, memory_mb=1024, output_kb=256)
"""A hundred times what a well-behaved item needs, but tight enough that thousands of failures finish within minutes."""
PATIENT_LIMITS = replace(LIMITS, seconds=4.0)
"""For tests: a well-behaved item does not time out, no matter how busy the machine is."""
FOREVER = 100_000.0


class Expected(NamedTuple):
    """Expected status, cause and detail of a verdict."""

    status: str
    cause: str = ""
    detail: str = ""


EXPECTED = {
    FINE: Expected("scored"),
    "reject": Expected("rejected"),
    "raise": Expected("rejected", "exception"),
    "interrupt": Expected("rejected", "exception"),
    "nan": Expected("rejected", "bad return"),
    "string": Expected("rejected", "bad return"),
    "list": Expected("rejected", "bad return"),
    "none": Expected("unscored", "no score"),
    "sleep": Expected("rejected", "timeout"),
    "deaf": Expected("rejected", "timeout"),
    "segfault": Expected("rejected", "killed by signal", "SIGSEGV"),
    "abort": Expected("rejected", "killed by signal", "SIGABRT"),
    "suicide": Expected("rejected", "killed by signal", "SIGKILL"),
    "exit": Expected("rejected", "exited", "code 3"),
    "exit in peace": Expected("rejected", "exited", "code 0"),
    "sys.exit": Expected("rejected", "exited", "code 4"),
    "allocate": Expected("rejected", "out of memory"),
    "print": Expected("rejected", "output overflow"),
    "close": Expected("unscored", "lost worker"),
    "child": Expected("scored"),
    "session": Expected("scored"),
    "daemon": Expected("scored"),
    "bare child": Expected("scored"),
    "twin": Expected("scored"),
}
MISBEHAVING = tuple(kind for kind in EXPECTED if kind != FINE)


def misbehave(_task: Task, text: str) -> object:
    """Misbehave in the way the text selects."""
    act = ACTS.get(text)
    return REWARD if act is None else act()


def misbehave_in_batches(tasks: Sequence[Task], texts: Sequence[str]) -> list[object]:
    """Misbehave in a batch; the text ``few`` makes it return one score too few."""
    scores = [misbehave(task, text) for task, text in zip(tasks, texts, strict=True)]
    return scores[1:] if "few" in texts else scores


def share_of_a(task: Task, text: str) -> object:
    """Return the fraction of characters equal to ``a``; one output in ten makes the verifier misbehave instead."""
    dice = zlib.crc32(f"{task.id} {text}".encode())
    return misbehave(task, MISBEHAVING[dice // 10 % len(MISBEHAVING)]) if dice % 10 == 0 else text.count("a") / 4


def item(number: int, text: str, group_size: int = 1) -> Item:
    none = np.zeros(0, np.int32)
    decisions = Decisions(none, none, np.zeros(0, np.float32))
    key = SampleKey(0, number // group_size, 0, number % group_size)
    return Item(Task(f"task {key.slot}", "prompt"), Sample(key, none, 0, text, "stop", decisions), group_size)


def texts(count: int, seed: int = 0) -> list[str]:
    """Return texts in random order; one in ten triggers misbehaviour, each kind equally often."""
    bad = [MISBEHAVING[number % len(MISBEHAVING)] for number in range(count // 10)]
    order = np.random.default_rng(seed).permutation(count)
    both = bad + [FINE] * (count - len(bad))
    return [both[index] for index in order]


def _reject() -> object:
    raise Invalid("not today")


def _raise() -> object:
    raise KeyError("a bug in the verifier")


def _interrupt() -> object:
    raise KeyboardInterrupt


def _sleep() -> object:
    return time.sleep(FOREVER)


def _deaf() -> object:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return time.sleep(FOREVER)


def _segfault() -> object:
    return ctypes.string_at(0)


def _suicide() -> object:
    os.kill(os.getpid(), signal.SIGKILL)
    return time.sleep(FOREVER)


def _allocate() -> object:
    held = []
    while True:
        held.append(bytes(2**26))


def _print() -> object:
    line = "x" * 2**20
    for _ in range(1024):
        print(line)
    return REWARD


def _close() -> object:
    os.closerange(0, 4096)
    return REWARD


def _child() -> object:
    """Leave behind a child that outlives the item."""
    if os.fork() == 0:
        _outlive()
    return REWARD


def _session() -> object:
    """Leave behind a child in its own session."""
    if os.fork() == 0:
        os.setsid()
        _outlive()
    return REWARD


def _daemon() -> object:
    """Leave behind a grandchild in its own session, without a parent."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if os.fork() == 0:
            _outlive()
        os._exit(0)
    os.waitpid(pid, 0)
    return REWARD


def _bare_child() -> object:
    """Leave behind a program in its own session with an empty environment."""
    subprocess.Popen(["/bin/sleep", "100000"], env={}, start_new_session=True)
    return REWARD


def _outlive() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    time.sleep(FOREVER)
    os._exit(0)


def _twin() -> object:
    """Fork, and let both processes return a score."""
    os.fork()
    return REWARD


ACTS = {
    "reject": _reject,
    "raise": _raise,
    "interrupt": _interrupt,
    "nan": lambda: float("nan"),
    "string": lambda: "one half",
    "list": lambda: [REWARD],
    "none": lambda: None,
    "sleep": _sleep,
    "deaf": _deaf,
    "segfault": _segfault,
    "abort": os.abort,
    "suicide": _suicide,
    "exit": lambda: os._exit(3),
    "exit in peace": lambda: os._exit(0),
    "sys.exit": lambda: sys.exit(4),
    "allocate": _allocate,
    "print": _print,
    "close": _close,
    "child": _child,
    "session": _session,
    "daemon": _daemon,
    "bare child": _bare_child,
    "twin": _twin,
}
