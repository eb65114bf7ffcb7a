"""SIGKILL a process at random times while it saves repeatedly: an intact checkpoint is always found."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from steelyard.checkpoint import Checkpoint, Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL"),
]

SAVERS = """
# Imports once. For every delay it reads, forks a process that only saves, kills it, and prints its last completed save.
import os, signal, sys, time
from pathlib import Path
import torch
from steelyard.checkpoint import Store

def save_forever(folder, out):
    store = Store(folder, keep_last=1)
    found = store.latest()
    step = found.step if found else 0
    while True:
        step += 1
        def write_model(path):
            for part in range(4):
                (path / f"part-{part}.bin").write_bytes(bytes([step % 256]) * 300_000)
        tree = {"x": torch.full((50_000,), float(step))}
        store.save(step, folders={"model": write_model}, tensors={"x": tree}, state={"step": step}, score=float(-step))
        os.write(out, b"%d\\n" % step)

for line in sys.stdin:
    folder, delay = line.split("\\t")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        save_forever(Path(folder), write)
    os.close(write)
    reports = os.fdopen(read)
    first = reports.readline()
    time.sleep(float(delay))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(([first] + reports.readlines())[-1].strip(), flush=True)
"""

KILLS = 15


def assert_intact(found: Checkpoint) -> None:
    assert found.state == {"step": found.step}
    assert torch.equal(found.tensors("x")["x"], torch.full((50_000,), float(found.step)))
    for part in range(4):
        data = (found.folder("model") / f"part-{part}.bin").read_bytes()
        assert data == bytes([found.step % 256]) * 300_000


@pytest.fixture
def kill_a_saver() -> Iterator[Callable[[Path, float], int]]:
    """Run a process that saves checkpoints, kill it some time after the first, and return the last step it reported."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SAVERS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def kill(folder: Path, delay: float) -> int:
            stdin.write(f"{folder}\t{delay}\n")
            return int(stdout.readline())

        yield kill


def test_fifteen_kills_leave_fifteen_intact_checkpoints(
    tmp_path: Path, kill_a_saver: Callable[[Path, float], int]
) -> None:
    delay = random.Random(3)
    interrupted = 0
    for _ in range(KILLS):
        reported = kill_a_saver(tmp_path, delay.uniform(0.0, 0.06))
        interrupted += any(path.name.startswith(".") for path in tmp_path.iterdir())
        store = Store(tmp_path, keep_last=1)
        found = store.latest()
        assert found is not None
        assert store.skipped == [], "a kill leaves folders named as work in progress, never a damaged checkpoint"
        assert found.step >= reported
        assert_intact(found)
        best = store.best()
        assert best is not None
        assert best.step == 1
    assert interrupted > 0, "no kill interrupted a save, so the test shows nothing"
    Store(tmp_path, keep_last=1).save(10**6, state={})
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
