"""Processes that a pool started and that are still there, found by the mark that all of them carry.

Other runs on the machine have such processes too. So the first process that imports this module marks itself, before it
makes a pool: what it starts inherits that, and only what has both marks counts.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from steelyard.verification.processes.handle import MARK

OBSERVED = "STEELYARD_OBSERVED_BY"
os.environ.setdefault(OBSERVED, str(os.getpid()))


def marked() -> list[int]:
    """Every living process with a keeper's mark in its environment that this one started, however indirectly: keepers,
    workers and what those started.
    """
    observed, keeper = f"{OBSERVED}={os.environ[OBSERVED]}\0".encode(), f"{MARK}=".encode()
    return [pid for pid in _processes() if observed in (own := _read(pid, "environ")) and keeper in own]


def zombies(parents: set[int] | None = None) -> list[int]:
    """Dead processes that nobody has waited for, of these parents (default: this process and all marked ones)."""
    parents = parents or {os.getpid(), *marked()}
    stats = {pid: _stat(pid) for pid in _processes()}
    return [pid for pid, stat in stats.items() if len(stat) > 1 and stat[0] == "Z" and int(stat[1]) in parents]


def descendants() -> list[int]:
    """Living processes that descend from this one; orphans count only if this process adopts them."""
    parent = {pid: int(stat[1]) for pid in _processes() if len(stat := _stat(pid)) > 1 and stat[0] != "Z"}
    found: list[int] = []
    generation = [os.getpid()]
    while generation:
        generation = [pid for pid, of in parent.items() if of in generation]
        found += generation
    return found


def settle_down(count: int, seconds: float = 60.0) -> int:
    """How many marked processes there are: ``count``, as soon as that is so, or what there is when the time is over."""
    end = time.monotonic() + seconds
    while (there := len(marked())) != count and time.monotonic() < end:
        time.sleep(0.02)
    return there


def alive(pid: int) -> bool:
    """There, and not a zombie."""
    return _stat(pid)[:1] not in ([], ["Z"])


def parent_of(pid: int) -> int | None:
    stat = _stat(pid)
    return int(stat[1]) if len(stat) > 1 else None


def command_of(pid: int) -> str:
    """Its command line, the words separated by NUL; empty for a process that is gone."""
    return _read(pid, "cmdline").decode(errors="replace")


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """State, parent and the rest; empty for a process that is gone."""
    return _read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""
