"""Find and kill the processes that a worker leaves behind, including those that left its session.

On Linux a *subreaper* becomes the parent of every orphaned descendant, so no process can escape (prctl(2),
PR_SET_CHILD_SUBREAPER). On other systems only the process group of a worker can be killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends; more precisely, when the thread that started it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def outlive_parent() -> None:
    """Undo :func:`die_with_parent`, so that this process can clean up after its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def children() -> set[int]:
    """Return the process ids of the children of this process, including zombies."""
    if not _LINUX:
        return set()
    me = os.getpid()
    with suppress(OSError):
        tasks = [task.name for task in Path("/proc/self/task").iterdir()]
        return {int(pid) for task in tasks for pid in Path(f"/proc/self/task/{task}/children").read_text().split()}
    return {pid for pid in _all_processes() if _parent_of(pid) == me}


def end_children(keep: frozenset[int] = frozenset(), *, timeout: float = 10.0) -> None:
    """Kill and reap all children except those in ``keep``, until none is left.

    Children of a killed child become children of this process, which adopts orphans, and are killed in the next round.
    """
    deadline = time.monotonic() + timeout
    while (found := children() - keep) and time.monotonic() < deadline:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while found and time.monotonic() < deadline:
            found = {pid for pid in found if not _reaped(pid)}
            time.sleep(0.0005 if found else 0.0)


def _reaped(pid: int) -> bool:
    """Reap the child if it has ended. Returns whether the child is gone."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def has_children() -> bool:
    """Reap zombies and return whether any child is left. Takes about a microsecond."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def end_marked(mark: str, *, timeout: float = 10.0) -> None:
    """Kill every process with ``mark`` in its environment. Needed if the fork server itself was killed."""
    wanted, deadline = mark.encode(), time.monotonic() + timeout
    while (found := [pid for pid in _all_processes() if wanted in _environment(pid)]) and time.monotonic() < deadline:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _all_processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()] if _LINUX else []


def _parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _environment(pid: int) -> bytes:
    """Return the environment of a process, or nothing if it has ended or belongs to another user."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _LINUX and _libc().prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")
