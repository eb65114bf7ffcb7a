r"""``run_code`` and ``run_command``: one program under limits, at the best level there is, and what came of it.

::

    ran = run_code("print(sum(map(int, input().split())))", stdin="1 2 3", limits=RunLimits(seconds=2))
    ran.ok and ran.stdout == "6\n"
"""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, cast

from steelyard.errors import SandboxError
from steelyard.verification.sandbox import supervisor
from steelyard.verification.sandbox.levels import (
    HOME,
    OWN_PROCESSES,
    Level,
    bubblewrap_command,
    kept_environment,
    require_visible,
    settle,
)
from steelyard.verification.sandbox.supervisor import Report, Request

LEAST_PATIENCE = 30.0
"""Seconds beyond the limit after which a supervisor that says nothing is taken for lost."""
PROGRAMS = "/usr/local/bin:/usr/bin:/bin"
SIGNALLED = 128
"""Bubblewrap ends with this plus the number of the signal that ended its program."""

log = logging.getLogger("steelyard.verification")


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What one run may use. Memory, processor time and file size hold for each process by itself."""

    seconds: float = 10.0
    """By the clock, for the run as a whole."""
    cpu_seconds: int = 10
    memory: int = 1 << 30
    """Bytes of address space."""
    file_size: int = 1 << 26
    """Bytes of any one file."""
    processes: int = 64
    """Processes at a time. They are counted fifty times a second: a burst may pass it before all are killed."""
    output: int = 1 << 20
    """Bytes kept of stdout, and of stderr; the rest is dropped and ``truncated`` says so."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"limit {name} = {value}: give a positive number")


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of one run."""

    stdout: str
    stderr: str
    exit_code: int | None
    """``None`` if a signal ended it."""
    signal: int | None
    """At level bubblewrap an exit code of 129 to 192 cannot be told from a signal and is read as one."""
    stopped: Literal["", "time", "processes", "lost"]
    """Which limit ended it; ``"lost"``: its supervisor was killed or halted, which at the floor a program can do."""
    truncated: bool
    """Whether more was printed than the limit keeps."""
    seconds: float
    level: Level

    @property
    def ok(self) -> bool:
        """It ended by itself and with exit code 0. That is the program's own word: compare its output for more."""
        return self.exit_code == 0 and not self.stopped

    @property
    def timed_out(self) -> bool:
        return self.stopped == "time"


def run_code(
    code: str,
    *,
    stdin: str = "",
    files: Mapping[str, str | bytes] | None = None,
    readable: Sequence[str | Path] = (),
    environment: Mapping[str, str] | None = None,
    limits: RunLimits = RunLimits(),
    level: Level | Literal["auto"] = "auto",
) -> Ran:
    """Run Python code (``python -I main.py``) in a scratch folder that holds ``files`` and is removed afterwards.

    ``readable`` are further folders to be seen at level bubblewrap; ``environment`` is added to a clean one.
    """
    everything = {**(files or {}), "main.py": code}
    command = [sys.executable, "-I", "main.py"]
    return run_command(
        command,
        stdin=stdin,
        files=everything,
        readable=readable,
        environment=environment,
        limits=limits,
        level=level,
    )


def run_command(
    command: Sequence[str],
    *,
    stdin: str = "",
    files: Mapping[str, str | bytes] | None = None,
    readable: Sequence[str | Path] = (),
    environment: Mapping[str, str] | None = None,
    limits: RunLimits = RunLimits(),
    level: Level | Literal["auto"] = "auto",
) -> Ran:
    """Run any program as :func:`run_code` runs Python; no shell comes between. A program that is not there raises."""
    at = settle(level)
    opened = [Path(path).absolute() for path in readable]
    program = _found(command, opened, at)
    folder = Path(tempfile.mkdtemp(prefix="steelyard-sandbox-"))
    try:
        _furnish(folder, stdin, files or {})
        home = HOME if at == "bubblewrap" else folder / "scratch"
        words = [program, *command[1:]]
        request = Request(
            command=bubblewrap_command(words, folder, opened) if at == "bubblewrap" else words,
            environment={**_clean_environment(home, folder, at), **(environment or {})},
            folder=str(folder),
            working_folder=str(folder / "scratch"),
            stdin=str(folder / "stdin"),
            caller=os.getpid(),
            drop_privileges=at == "floor",
            seconds=limits.seconds,
            cpu_seconds=limits.cpu_seconds,
            memory=limits.memory,
            file_size=limits.file_size,
            processes=limits.processes + OWN_PROCESSES[at],
            output=limits.output,
        )
        return _ran(_supervised(request), at, limits)
    finally:
        if not supervisor.remove_folder(folder):
            log.warning("the scratch folder %s could not be removed", folder)


def _found(command: Sequence[str], readable: Sequence[Path], level: Level) -> str:
    """Where the program is; a relative path is left to be found in the scratch folder."""
    for folder in readable:
        if not folder.exists():
            raise SandboxError(f"readable: there is no {folder}")
    if not command:
        raise SandboxError("the command is empty: give the program and its arguments as a list")
    if os.sep in command[0] and not Path(command[0]).is_absolute():
        return command[0]
    found = shutil.which(command[0], path=_search_path())
    if found is None:
        raise SandboxError(f"no program {command[0]!r} in {_search_path()}; give its whole path")
    if level == "bubblewrap":
        require_visible(Path(found), readable)
    return found


def _furnish(folder: Path, stdin: str, files: Mapping[str, str | bytes]) -> None:
    """Make the folders of a run and put its files there."""
    for name in ("scratch", "tmp", "shm"):
        (folder / name).mkdir()
    (folder / "stdin").write_bytes(_encoded(stdin))
    for name, content in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise SandboxError(f"file {name!r}: a name within the scratch folder is needed, such as 'data/input.txt'")
        target = folder / "scratch" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_encoded(content))


def _encoded(content: str | bytes) -> bytes:
    """UTF-8. A model may write half a character: that is its fault, so it becomes a ``?`` and never an error here."""
    return content.encode(errors="replace") if isinstance(content, str) else content


def _search_path() -> str:
    return f"{Path(sys.executable).parent}:{PROGRAMS}"


def _clean_environment(home: Path, folder: Path, level: Level) -> dict[str, str]:
    """An environment without the caller's keys and tokens. One thread a run: many run side by side."""
    return {
        **kept_environment(),
        "PATH": _search_path(),
        "HOME": str(home),
        "TMPDIR": "/tmp" if level == "bubblewrap" else str(folder / "tmp"),  # noqa: S108 - the program's own
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }


def _supervised(request: Request) -> Report | None:
    """Have a supervisor carry out the request; ``None`` if it was killed or halted."""
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-I", "-S", supervisor.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=kept_environment(),
        start_new_session=True,
    ) as process:
        try:
            report, complaint = process.communicate(json.dumps(request).encode(), request["seconds"] + LEAST_PATIENCE)
        except subprocess.TimeoutExpired:
            _end(process)
            return None
        except BaseException:
            process.terminate()
            try:
                process.wait(supervisor.GRACE + 1)
            except subprocess.TimeoutExpired:
                _end(process)
            raise
    if process.returncode < 0:
        return None
    if process.returncode > 0:
        raise SandboxError(f"the sandbox's supervisor failed: {complaint.decode(errors='replace').strip()[-1000:]}")
    return cast("Report", json.loads(report))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a supervisor that does not answer, and all below it."""
    process.send_signal(signal.SIGSTOP)
    supervisor.kill_descendants(process.pid)
    process.kill()


def _ran(report: Report | None, level: Level, limits: RunLimits) -> Ran:
    if report is None:
        return Ran("", "", None, signal.SIGKILL, "lost", truncated=False, seconds=limits.seconds, level=level)
    if report["error"]:
        raise SandboxError(f"the program could not be started: {report['error']}")
    code = report["returncode"]
    ended_by = -code if code < 0 else None
    if level == "bubblewrap" and SIGNALLED < code <= SIGNALLED + 64:
        ended_by = code - SIGNALLED
    return Ran(
        stdout=report["stdout"],
        stderr=report["stderr"],
        exit_code=None if ended_by else code,
        signal=ended_by,
        stopped=cast("Literal['', 'time', 'processes']", report["stopped"]),
        truncated=report["truncated"],
        seconds=report["seconds"],
        level=level,
    )
