"""Two processes that write to the same verdict cache are killed at random times; the file stays readable."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import steelyard
from benchmarks.verification.cache import readable
from steelyard.verification.cache import VerdictCache

WRITER = """
import sys
from pathlib import Path
from steelyard.types import Verdict
from steelyard.verification.cache import VerdictCache

cache, name = VerdictCache(Path(sys.argv[1])), sys.argv[2]
for number in range(10**9):
    cache.put(f"{name} {number}".encode(), Verdict.scored(number))
    if number == 10:
        print("writing", flush=True)
"""
ROUNDS = 3


def test_killed_writers_leave_a_readable_cache(tmp_path: Path) -> None:
    path, delay, kept = tmp_path / "verdicts.sqlite", random.Random(0), 0
    for number in range(ROUNDS):
        writers = [start_writer(path, f"{number} {name}") for name in "ab"]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"writing\n"
        time.sleep(delay.uniform(0.0, 0.05))
        for writer in writers:
            writer.kill()
            writer.communicate()
        assert readable(path)
        cache = VerdictCache(path)
        assert len(cache) >= kept + 2 * 10
        kept = len(cache)
        cache.close()


def start_writer(path: Path, name: str) -> subprocess.Popen[bytes]:
    source = str(Path(steelyard.__file__).parents[1])
    command = [sys.executable, "-c", WRITER, str(path), name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env={"PYTHONPATH": source})
