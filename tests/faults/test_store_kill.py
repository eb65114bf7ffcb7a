"""SIGKILL at random instants of a process that does nothing but save: a whole checkpoint is always found."""

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

NURSERY = """
# Imports once, then for every delay read forks a process that only saves, kills it, and reports its last whole save.
import os, signal, sys, time
from pathlib import Path
import torch
from steelyard.checkpoint import Store

def save_for_ever(folder, out):
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
        save_for_ever(Path(folder), write)
    os.close(write)
    reports = os.fdopen(read)
    first = reports.readline()
    time.sleep(float(delay))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(([first] + reports.readlines())[-1].strip(), flush=True)
"""

KILLS = 15


def assert_whole(found: Checkpoint) -> None:
    assert found.state == {"step": found.step}
    assert torch.equal(found.tensors("x")["x"], torch.full((50_000,), float(found.step)))
    for part in range(4):
        data = (found.folder("model") / f"part-{part}.bin").read_bytes()
        assert data == bytes([found.step % 256]) * 300_000


@pytest.fixture
def kill_a_saver() -> Iterator[Callable[[Path, float], int]]:
    """Run a saver, kill it a while after its first save, and give the last step it reported."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", NURSERY]
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


def test_fifteen_kills_leave_fifteen_whole_checkpoints(
    tmp_path: Path, kill_a_saver: Callable[[Path, float], int]
) -> None:
    instant = random.Random(3)
    torn_by_name = 0
    for _ in range(KILLS):
        reported = kill_a_saver(tmp_path, instant.uniform(0.0, 0.06))
        torn_by_name += any(path.name.startswith(".") for path in tmp_path.iterdir())
        store = Store(tmp_path, keep_last=1)
        found = store.latest()
        assert found is not None
        assert store.skipped == [], "a kill leaves work in progress by name, never a torn checkpoint"
        assert found.step >= reported
        assert_whole(found)
        best = store.best()
        assert best is not None
        assert best.step == 1
    assert torn_by_name > 0, "no kill fell into a save: the test shows nothing"
    Store(tmp_path, keep_last=1).save(10**6, state={})
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
