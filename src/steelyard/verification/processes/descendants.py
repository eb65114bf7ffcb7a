"""Finding and ending processes that a worker leaves behind, those that left its session too.

On Linux a process that calls itself a *subreaper* becomes the parent of every descendant whose own parent is gone, so
none can slip away (prctl(2), PR_SET_CHILD_SUBREAPER). Elsewhere only the process group of a worker can be ended.
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
    """Become the parent of descendants that lose theirs."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Be killed when the parent, by its process id, is gone (exactly: the thread of it that started this process)."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def outlive_parent() -> None:
    """Take back :func:`die_with_parent`, to clean up when the parent is gone."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def children() -> set[int]:
    """Process ids of this process's children, dead ones that nobody has waited for included."""
    if not _LINUX:
        return set()
    me = os.getpid()
    with suppress(OSError):
        tasks = [task.name for task in Path("/proc/self/task").iterdir()]
        return {int(pid) for task in tasks for pid in Path(f"/proc/self/task/{task}/children").read_text().split()}
    return {pid for pid in _all_processes() if _parent_of(pid) == me}


def end_children(keep: frozenset[int] = frozenset(), *, patience: float = 10.0) -> None:
    """Kill and wait for every child but those to keep, until none is left.

    The children of a killed child become ours and are killed in the next round, since this process adopts orphans.
    """
    give_up = time.monotonic() + patience
    while (found := children() - keep) and time.monotonic() < give_up:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while found and time.monotonic() < give_up:
            found = {pid for pid in found if not _taken_away(pid)}
            time.sleep(0.0005 if found else 0.0)


def _taken_away(pid: int) -> bool:
    """Whether a dead child is there no more."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def has_children() -> bool:
    """Whether there is any child; dead ones are taken away on the way. Costs a microsecond."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def end_marked(mark: str, *, patience: float = 10.0) -> None:
    """Kill every process that carries ``mark`` in its environment: what is left when even the keeper was killed."""
    wanted, give_up = mark.encode(), time.monotonic() + patience
    while (found := [pid for pid in _all_processes() if wanted in _environment(pid)]) and time.monotonic() < give_up:
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
    """Empty for a process that is gone, dead, or another user's."""
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
