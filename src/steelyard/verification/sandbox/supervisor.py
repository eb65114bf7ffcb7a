"""A process of its own that runs one command under limits, watches it, and kills all that came of it.

Started as ``python -I -S supervisor.py`` and made of the standard library alone, so it is there in milliseconds. One
JSON request comes on stdin and one JSON report goes to stdout. It adopts every orphan below it, so a double fork with
``setsid`` does not get away (Linux only), and ends the run when its caller is gone. The caller itself is not changed.
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
"""Seconds between two looks at the clock, the processes and the caller."""
GRACE = 5.0
"""Seconds that killed processes are given to be gone, and their pipes to run dry."""
OPEN_FILES = 256
CHUNK = 1 << 16
FIRST = -20
"""Priority of the supervisor, where it may have that."""
LINUX = sys.platform == "linux"

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
"""Number of the system call, for which the C library has no function."""
KEYCTL_JOIN_SESSION_KEYRING = 1
MOVED = ".steelyard-removing-"
NO_ROOT_LOCKED = 0b11
"""Securebits by which user 0 gets no capabilities from ``exec``, for good."""


class Request(TypedDict):
    """What to run, and within what."""

    command: list[str]
    environment: dict[str, str]
    folder: str
    """All of the run's files; removed here if the caller is gone, else by the caller."""
    working_folder: str
    stdin: str
    """A file."""
    caller: int
    drop_privileges: bool
    seconds: float
    cpu_seconds: int
    memory: int
    file_size: int
    processes: int
    output: int


class Report(TypedDict):
    """What came of it."""

    error: str
    """Why the command could not be started; then the rest says nothing."""
    returncode: int
    stopped: str
    """``""``: ended by itself; else ``"time"``, ``"processes"`` or ``"lost"``: what ended it."""
    seconds: float
    stdout: str
    stderr: str
    truncated: bool


class Output:
    """The first ``limit`` bytes of a stream; what comes after is read and dropped, so the writer never waits."""

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
    request = cast("Request", json.load(sys.stdin))
    told: list[int] = []
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    _control_process(PR_SET_CHILD_SUBREAPER, 1)
    with suppress(
        OSError
    ):  # who may, goes before the program: a flood of processes leaves little time to count and kill
        os.setpriority(os.PRIO_PROCESS, 0, FIRST)
    _control_process(PR_SET_DUMPABLE, 0)  # its pipes and memory are closed to the program, which could forge the report
    try:
        join_fresh_keyring()
        report = supervise(request, told, nice)
    except (OSError, subprocess.SubprocessError) as error:
        reason = f"{type(error).__name__}: {error}"
        report = Report(error=reason, returncode=0, stopped="", seconds=0, stdout="", stderr="", truncated=False)
    if os.getppid() != request["caller"]:
        remove_folder(Path(request["folder"]))
    else:
        json.dump(report, sys.stdout)


def supervise(request: Request, told: list[int], nice: int) -> Report:
    """Run the command to its end or to a limit; ``told`` is filled when the caller wants an end."""
    started = time.monotonic()
    with Path(request["stdin"]).open("rb") as stdin:
        process = subprocess.Popen(  # noqa: S603 - running what it is told is its purpose
            request["command"],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=request["working_folder"],
            env=request["environment"],
            start_new_session=True,
            preexec_fn=lambda: confine(request, nice),  # noqa: PLW1509 - there are no threads here
        )
    outputs = Output(request["output"]), Output(request["output"])
    with selectors.DefaultSelector() as selector:
        for stream, output in zip((process.stdout, process.stderr), outputs, strict=True):
            selector.register(cast("BinaryIO", stream), selectors.EVENT_READ, output)
        stopped = watch(process, selector, request, told)
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
    """Between fork and exec: the limits, which nothing below can raise again, the caller's priority, and death with the
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
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")  # when memory is short, take this first
    if request["drop_privileges"]:
        _control_process(PR_SET_NO_NEW_PRIVS, 1)
        _control_process(PR_SET_SECUREBITS, NO_ROOT_LOCKED)
        _control_process(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)


def watch(process: subprocess.Popen[bytes], selector: selectors.BaseSelector, request: Request, told: list[int]) -> str:
    """Wait for the end of the command; the name of the limit that ends it sooner, or nothing."""
    deadline = time.monotonic() + request["seconds"]
    while not _ended(process):
        if told or os.getppid() != request["caller"]:
            return "lost"
        if time.monotonic() > deadline:
            return "time"
        if more_descendants(os.getpid(), than=request["processes"]):
            return "processes"
        read_ready(selector)
        _reap_orphans(process.pid)
    return ""


def read_ready(selector: selectors.BaseSelector) -> None:
    """Read what is there, waiting one tick at most; a stream that is at its end is let go."""
    if not selector.get_map():
        time.sleep(TICK / 10)
        return
    for key, _ in selector.select(TICK):
        data = os.read(key.fd, CHUNK)
        cast("Output", key.data).add(data)
        if not data:
            selector.unregister(key.fileobj)


def kill_everything(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and all that it started: its group in one stroke, then whoever left the group, generation by
    generation, until no child is left. An orphan becomes a child of this process, so none is missed.
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
    """Each is killed as it is found: in a flood every process that is left takes processor time from this one."""
    for pid in _descendants(root):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def more_descendants(root: int, than: int) -> bool:
    """Whether there are more than so many. It counts no further, since a flood leaves little time to count."""
    return any(True for _ in itertools.islice(_descendants(root), than, None))


def descendants(root: int) -> list[int]:
    """Every process below ``root``, those that only wait to be reaped included; empty where there is no ``/proc``."""
    return list(_descendants(root))


def _descendants(root: int) -> Iterator[int]:
    below = _children if Path(f"/proc/self/task/{os.getpid()}/children").exists() else _scan_for_children()
    waiting = [root]
    while waiting:
        children = below(waiting.pop())
        waiting += children
        yield from children


def _children(pid: int) -> list[int]:
    """Read with system calls alone: in a flood the time for this is short."""
    found: list[int] = []
    with suppress(OSError):  # it may be gone meanwhile
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            descriptor = os.open(f"/proc/{pid}/task/{thread}/children", os.O_RDONLY)
            with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123
                found += map(int, file.readall().split())
    return found


def _scan_for_children() -> Callable[[int], list[int]]:
    """For kernels that keep no list of children: one look at the parent of every process there is."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(stat.parent.name))
    return lambda pid: children.get(pid, [])


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the command ended; it is not reaped yet where that can be, so that its group keeps its number."""
    if not LINUX:
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _reap_orphans(command: int) -> None:
    """Let go of adopted processes that ended, so that they are not counted; never of the command itself."""
    if not LINUX:
        return
    while (seen := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and seen.si_pid != command:
        os.waitpid(seen.si_pid, 0)


def _reap_all() -> bool:
    """Let go of all that ended; whether some child still lives."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _limit(kind: int, amount: int) -> None:
    """Set a limit for good, or leave the one in force if that is lower."""
    _, hard = resource.getrlimit(kind)
    amount = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
    try:
        resource.setrlimit(kind, (amount, amount))
    except (OSError, ValueError):
        if LINUX:
            raise


def _control_process(option: int, value: int) -> None:
    """``prctl``; where it is refused or not there, one goes on without."""
    if LINUX:
        ctypes.CDLL(None).prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))


def join_fresh_keyring() -> None:
    """Leave the caller's session keyring (keyrings(7)) for a new, empty one: a program could read the keys in it, also
    from other namespaces. Where the system refuses, it refuses the program too.
    """
    number = KEYCTL.get(os.uname().machine)
    if not LINUX or number is None:
        return
    libc, deadline = ctypes.CDLL(None, use_errno=True), time.monotonic() + GRACE
    while libc.syscall(number, KEYCTL_JOIN_SESSION_KEYRING, None) < 0:
        reason = ctypes.get_errno()
        if reason in (errno.ENOSYS, errno.EPERM, errno.EACCES):
            return
        if reason != errno.EDQUOT or time.monotonic() > deadline:  # keyrings of ended runs go a moment later
            raise OSError(reason, f"no session keyring of its own: {os.strerror(reason)}")
        time.sleep(TICK)


def remove_folder(folder: Path) -> bool:
    """Remove what a run left, however it left it: unreadable folders, ten thousand levels, links (never followed)."""
    with suppress(OSError, RecursionError):
        shutil.rmtree(folder)
        return True
    with suppress(OSError):
        if folder.is_symlink():  # put there by the program: the folder itself was moved away
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
    """Remove everything in an open folder. Folders within folders are moved to the top first, so that no path grows
    long; everything goes by open folders, so that a link put in their place leads nowhere.
    """
    fresh = itertools.count()
    while names := os.listdir(root):
        for name in names:
            if not _unlinked(name, root):
                inner = _opened(name, root)
                try:
                    for below in os.listdir(inner):  # noqa: PTH208
                        if not _unlinked(below, inner):
                            os.close(_opened(below, inner))  # who moves a folder must be able to write it
                            os.rename(below, f"{MOVED}{next(fresh)}", src_dir_fd=inner, dst_dir_fd=root)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=root)


def _unlinked(name: str, folder: int) -> bool:
    """Remove a file or a link from an open folder; ``False`` for a folder, which stays."""
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):  # what the second means elsewhere than on Linux
        return False
    return True


def _opened(name: str, folder: int | None) -> int:
    """A folder, made accessible to this user and opened; an error for a link."""
    if LINUX:  # without access one gets a handle, through which the mode of nothing else can be changed
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
