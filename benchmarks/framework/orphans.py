"""Find processes that a verifier pool started and left running.

Pools mark their processes with an environment variable, but other runs on the machine do the same. So the first process
that imports this module sets a second variable, which its children inherit. Only processes with both variables count.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from steelyard.verification.processes.handle import MARK

OBSERVED = "STEELYARD_OBSERVED_BY"
os.environ.setdefault(OBSERVED, str(os.getpid()))


def pool_processes() -> list[int]:
    """Return every living pool process that this process started: supervisors, workers and their descendants."""
    observed, keeper = f"{OBSERVED}={os.environ[OBSERVED]}\0".encode(), f"{MARK}=".encode()
    return [pid for pid in _processes() if observed in (own := _read(pid, "environ")) and keeper in own]


def zombies(parents: set[int] | None = None) -> list[int]:
    """Return the zombie children of ``parents`` (default: this process and all marked ones)."""
    parents = parents or {os.getpid(), *pool_processes()}
    stats = {pid: _stat(pid) for pid in _processes()}
    return [pid for pid, stat in stats.items() if len(stat) > 1 and stat[0] == "Z" and int(stat[1]) in parents]


def descendants() -> list[int]:
    """Return the living descendants of this process; orphans count only if this process adopts them."""
    parent = {pid: int(stat[1]) for pid in _processes() if len(stat := _stat(pid)) > 1 and stat[0] != "Z"}
    found: list[int] = []
    generation = [os.getpid()]
    while generation:
        generation = [pid for pid, of in parent.items() if of in generation]
        found += generation
    return found


def wait_for_pool_processes(count: int, seconds: float = 60.0) -> int:
    """Wait up to ``seconds`` for the number of marked processes to reach ``count``, and return the number."""
    end = time.monotonic() + seconds
    while (there := len(pool_processes())) != count and time.monotonic() < end:
        time.sleep(0.02)
    return there


def alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    return _stat(pid)[:1] not in ([], ["Z"])


def parent_of(pid: int) -> int | None:
    stat = _stat(pid)
    return int(stat[1]) if len(stat) > 1 else None


def command_of(pid: int) -> str:
    """Return the process's NUL-separated command line; empty if the process is gone."""
    return _read(pid, "cmdline").decode(errors="replace")


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """Return the process's state, parent and further fields; empty if the process is gone."""
    return _read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""
