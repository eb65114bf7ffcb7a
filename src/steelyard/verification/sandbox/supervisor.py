"""The supervisor process: runs one command under limits, watches it and kills all its descendants.

The supervisor is started as ``python -I -S supervisor.py`` and uses only the standard library, so it starts within
milliseconds. The supervisor reads one JSON request from stdin and writes one JSON report to stdout. On Linux the
supervisor adopts orphaned descendants, so that a double fork with ``setsid`` cannot escape. The supervisor ends the run
if its caller dies. The caller's own process settings stay unchanged.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import json
import os
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypedDict, cast

TICK = 0.02
"""Seconds between two checks of the clock, the processes and the caller."""
GRACE = 5.0
"""Seconds to wait for killed processes to end and for their pipes to be drained."""
OPEN_FILES = 256
CHUNK = 1 << 16
SUPERVISOR_PRIORITY = -20
"""Priority (nice value) of the supervisor, if it has permission to set it."""
LINUX = sys.platform == "linux"

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
"""System call number by architecture; the C library has no function for it."""
KEYCTL_JOIN_SESSION_KEYRING = 1
MOVED = ".steelyard-removing-"
NO_ROOT_LOCKED = 0b11
"""Locked securebits that prevent user 0 from gaining capabilities through ``exec``."""


class Request(TypedDict):
    """The command to run and its limits."""

    command: list[str]
    environment: dict[str, str]
    folder: str
    """Folder with all files of the run. The caller removes the folder, or the supervisor if the caller has died."""
    working_folder: str
    stdin: str
    """Path of the file to use as stdin."""
    caller: int
    drop_privileges: bool
    seconds: float
    cpu_seconds: int
    memory: int
    file_size: int
    processes: int
    output: int


class Report(TypedDict):
    """The result of the command."""

    error: str
    """Why the command could not be started. If set, the other fields are meaningless."""
    returncode: int
    stopped: str
    """What ended the command: ``"time"``, ``"processes"`` or ``"lost"``; empty if it ended normally."""
    seconds: float
    stdout: str
    stderr: str
    truncated: bool


class BoundedOutput:
    """Keeps the first ``limit`` bytes of a stream. The rest is read and dropped, so that the writer never blocks."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.kept = bytearray()
        self.truncated = False

    def add(self, data: bytes) -> None:
        room = self.limit - len(self.kept)
        self.kept += data[:room]
        self.truncated |= len(data) > room

    def text(self) -> str:
        return self.kept.decode("utf-8", errors="replace")


def main() -> None:
    """Read a request, run it and write the report."""
    request = cast("Request", json.load(sys.stdin))
    stop_signals: list[int] = []
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    signal.signal(signal.SIGTERM, lambda number, _: stop_signals.append(number))
    _control_process(PR_SET_CHILD_SUBREAPER, 1)
    with suppress(OSError):  # requires privileges; a fork bomb would starve the supervisor of CPU time
        os.setpriority(os.PRIO_PROCESS, 0, SUPERVISOR_PRIORITY)
    _control_process(PR_SET_DUMPABLE, 0)  # hides pipes and memory, so the program cannot forge the report
    try:
        join_fresh_keyring()
        report = supervise(request, stop_signals, nice)
    except (OSError, subprocess.SubprocessError) as error:
        reason = f"{type(error).__name__}: {error}"
        report = Report(error=reason, returncode=0, stopped="", seconds=0, stdout="", stderr="", truncated=False)
    if os.getppid() != request["caller"]:
        remove_folder(Path(request["folder"]))
    else:
        json.dump(report, sys.stdout)


def supervise(request: Request, stop_signals: list[int], nice: int) -> Report:
    """Run the command until it ends or reaches a limit. A signal in ``stop_signals`` stops the command."""
    started = time.monotonic()
    with Path(request["stdin"]).open("rb") as stdin:
        process = subprocess.Popen(  # noqa: S603 - running the requested command is the purpose
            request["command"],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=request["working_folder"],
            env=request["environment"],
            start_new_session=True,
            preexec_fn=lambda: confine(request, nice),  # noqa: PLW1509 - there are no threads here
        )
    outputs = BoundedOutput(request["output"]), BoundedOutput(request["output"])
    with selectors.DefaultSelector() as selector:
        for stream, output in zip((process.stdout, process.stderr), outputs, strict=True):
            selector.register(cast("BinaryIO", stream), selectors.EVENT_READ, output)
        stopped = watch(process, selector, request, stop_signals)
        seconds = time.monotonic() - started
        kill_everything(process)
        deadline = time.monotonic() + GRACE
        while selector.get_map() and time.monotonic() < deadline:
            read_ready(selector)
    return Report(
        error="",
        returncode=process.returncode if process.returncode is not None else -signal.SIGKILL,
        stopped=stopped,
        seconds=seconds,
        stdout=outputs[0].text(),
        stderr=outputs[1].text(),
        truncated=any(output.truncated for output in outputs),
    )


def confine(request: Request, nice: int) -> None:
    """Confine the child between fork and exec.

    Sets hard limits, which the program cannot raise, restores the caller's priority, and makes the child die with the
    supervisor.
    """
    for kind, amount in (
        (resource.RLIMIT_CPU, request["cpu_seconds"]),
        (resource.RLIMIT_AS, request["memory"]),
        (resource.RLIMIT_FSIZE, request["file_size"]),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        _limit(kind, amount)
    os.setpriority(os.PRIO_PROCESS, 0, nice)
    _control_process(PR_SET_PDEATHSIG, signal.SIGKILL)
    _control_process(PR_SET_DUMPABLE, 1)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(
            "1000", encoding="ascii"
        )  # the first process to be killed when memory runs out
    if request["drop_privileges"]:
        _control_process(PR_SET_NO_NEW_PRIVS, 1)
        _control_process(PR_SET_SECUREBITS, NO_ROOT_LOCKED)
        _control_process(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)


def watch(
    process: subprocess.Popen[bytes], selector: selectors.BaseSelector, request: Request, stop_signals: list[int]
) -> str:
    """Wait until the command ends or exceeds a limit. Returns the name of the limit, or an empty string."""
    deadline = time.monotonic() + request["seconds"]
    while not _ended(process):
        if stop_signals or os.getppid() != request["caller"]:
            return "lost"
        if time.monotonic() > deadline:
            return "time"
        if has_more_descendants(os.getpid(), than=request["processes"]):
            return "processes"
        read_ready(selector)
        _reap_orphans(process.pid)
    return ""


def read_ready(selector: selectors.BaseSelector) -> None:
    """Read the available output, waiting at most one tick. A stream at its end is unregistered."""
    if not selector.get_map():
        time.sleep(TICK / 10)
        return
    for key, _ in selector.select(TICK):
        data = os.read(key.fd, CHUNK)
        cast("BoundedOutput", key.data).add(data)
        if not data:
            selector.unregister(key.fileobj)


def kill_everything(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and all its descendants.

    Kills the process group first, then the processes that left the group, one generation at a time, until no child is
    left. Orphans become children of this process, so none is missed.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline:
        kill_descendants(os.getpid())
        with suppress(subprocess.TimeoutExpired):
            process.wait(TICK)
        if process.returncode is not None and not _reap_all():
            return
        time.sleep(TICK / 10)


def kill_descendants(root: int) -> None:
    """Kill all descendants, each as soon as it is found, because a fork bomb competes for CPU time."""
    for pid in _descendants(root):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def has_more_descendants(root: int, than: int) -> bool:
    """Return whether ``root`` has more than ``than`` descendants. Stops counting as soon as the result is certain."""
    return any(True for _ in itertools.islice(_descendants(root), than, None))


def descendants(root: int) -> list[int]:
    """Return all descendants of ``root``, including zombies; empty on systems without ``/proc``."""
    return list(_descendants(root))


def _descendants(root: int) -> Iterator[int]:
    children_of = _children if Path(f"/proc/self/task/{os.getpid()}/children").exists() else _scan_for_children()
    waiting = [root]
    while waiting:
        children = children_of(waiting.pop())
        waiting += children
        yield from children


def _children(pid: int) -> list[int]:
    """Return the children of a process. Uses plain system calls, because a fork bomb leaves little CPU time."""
    found: list[int] = []
    with suppress(OSError):  # the process may have exited in the meantime
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            descriptor = os.open(f"/proc/{pid}/task/{thread}/children", os.O_RDONLY)
            with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123
                found += map(int, file.readall().split())
    return found


def _scan_for_children() -> Callable[[int], list[int]]:
    """Read the parent of every process once, for kernels without a list of children."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(stat.parent.name))
    return lambda pid: children.get(pid, [])


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the command has ended. On Linux the command is not reaped yet, so that its group id stays
    reserved.
    """
    if not LINUX:
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _reap_orphans(command: int) -> None:
    """Reap adopted processes that have ended, so that they are not counted. The command itself is not reaped."""
    if not LINUX:
        return
    while (seen := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and seen.si_pid != command:
        os.waitpid(seen.si_pid, 0)


def _reap_all() -> bool:
    """Reap all children that have ended. Returns whether any child is still alive."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _limit(kind: int, amount: int) -> None:
    """Set a hard limit, or keep the current one if it is lower."""
    _, hard = resource.getrlimit(kind)
    amount = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
    try:
        resource.setrlimit(kind, (amount, amount))
    except (OSError, ValueError):
        if LINUX:
            raise


def _control_process(option: int, value: int) -> None:
    """Call ``prctl``. Errors are ignored, because every use is optional hardening."""
    if LINUX:
        ctypes.CDLL(None).prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))


def join_fresh_keyring() -> None:
    """Replace the caller's session keyring (keyrings(7)) with a new, empty one.

    The program could otherwise read the caller's keys, even from other namespaces. If the system denies the call, it
    also denies the program access to keyrings.
    """
    number = KEYCTL.get(os.uname().machine)
    if not LINUX or number is None:
        return
    libc, deadline = ctypes.CDLL(None, use_errno=True), time.monotonic() + GRACE
    while libc.syscall(number, KEYCTL_JOIN_SESSION_KEYRING, None) < 0:
        reason = ctypes.get_errno()
        if reason in (errno.ENOSYS, errno.EPERM, errno.EACCES):
            return
        if (
            reason != errno.EDQUOT or time.monotonic() > deadline
        ):  # the kernel frees the keyrings of finished runs with a delay
            raise OSError(reason, f"could not create a session keyring: {os.strerror(reason)}")
        time.sleep(TICK)


def remove_folder(folder: Path) -> bool:
    """Remove the folder of a run, even if it contains unreadable or deeply nested folders. Links are never followed."""
    with suppress(OSError, RecursionError):
        shutil.rmtree(folder)
        return True
    with suppress(OSError):
        if folder.is_symlink():  # the program replaced the folder with a link
            folder.unlink()
            return False
        root = _opened(str(folder), None)
        try:
            _empty(root)
        finally:
            os.close(root)
        folder.rmdir()
    return not folder.exists()


def _empty(root: int) -> None:
    """Remove everything in an open folder.

    Nested folders are first moved to the top level, so that no path gets too long. All operations use open descriptors,
    so that replacing a folder with a link has no effect.
    """
    fresh = itertools.count()
    while names := os.listdir(root):
        for name in names:
            if not _unlinked(name, root):
                inner = _opened(name, root)
                try:
                    for below in os.listdir(inner):  # noqa: PTH208
                        if not _unlinked(below, inner):
                            os.close(_opened(below, inner))  # moving a folder requires write permission on it
                            os.rename(below, f"{MOVED}{next(fresh)}", src_dir_fd=inner, dst_dir_fd=root)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=root)


def _unlinked(name: str, folder: int) -> bool:
    """Remove a file or a link from an open folder. Returns ``False`` for a folder, which is kept."""
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):  # other systems raise PermissionError for folders
        return False
    return True


def _opened(name: str, folder: int | None) -> int:
    """Make a folder accessible to this user and open it. Raises an error for a link."""
    if LINUX:  # an O_PATH handle needs no permissions, and chmod through it cannot affect another file
        handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101
        finally:
            os.close(handle)
    else:
        os.chmod(name, 0o700, dir_fd=folder, follow_symlinks=False)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)


if __name__ == "__main__":
    main()
