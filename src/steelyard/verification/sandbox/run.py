r"""Run one program in the sandbox with ``run_code`` or ``run_command``.

::

    result = run_code("print(sum(map(int, input().split())))", stdin="1 2 3", limits=RunLimits(seconds=2))
    result.ok and result.stdout == "6\n"
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
    resolve_level,
)
from steelyard.verification.sandbox.supervisor import Report, Request

SUPERVISOR_SECONDS = 30.0
"""Seconds beyond the time limit after which an unresponsive supervisor counts as lost."""
PROGRAM_PATH = "/usr/local/bin:/usr/bin:/bin"
SIGNAL_EXIT_BASE = 128
"""If a signal ends the program, bubblewrap exits with this plus the number of the signal."""

log = logging.getLogger("steelyard.verification")


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of one run. Memory, CPU time and file size apply to each process separately."""

    seconds: float = 10.0
    """Wall-clock time of the whole run."""
    cpu_seconds: int = 10
    memory: int = 1 << 30
    """Bytes of address space."""
    file_size: int = 1 << 26
    """Maximum size of a file in bytes."""
    processes: int = 64
    """Maximum number of processes. Processes are counted 50 times per second, so a burst may briefly exceed the
    limit."""
    output: int = 1 << 20
    """Maximum number of bytes kept from each of stdout and stderr. The rest is dropped, and ``truncated`` is set."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"limit {name} = {value} must be a positive number")


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one run."""

    stdout: str
    stderr: str
    exit_code: int | None
    """Exit code, or ``None`` if a signal ended the program."""
    signal: int | None
    """Signal that ended the program. With bubblewrap, exit codes 129 to 192 are reported as signals."""
    stopped: Literal["", "time", "processes", "lost"]
    """The limit that ended the run. ``"lost"``: the supervisor was killed or halted; ``basic`` cannot prevent this."""
    truncated: bool
    """Whether the output exceeded its limit."""
    seconds: float
    level: Level

    @property
    def ok(self) -> bool:
        """Whether the program ended with exit code 0. The program chooses its exit code, so check its output too."""
        return self.exit_code == 0 and not self.stopped

    @property
    def timed_out(self) -> bool:
        """Whether the time limit ended the run."""
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
) -> RunResult:
    """Run Python code (``python -I main.py``) in a scratch folder with ``files``, which is removed afterwards.

    ``readable`` lists additional folders to make visible at level bubblewrap. ``environment`` is added to a clean
    environment.
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
) -> RunResult:
    """Run a program like :func:`run_code`, without a shell. Raises an error if the program does not exist."""
    at = resolve_level(level)
    folder = Path(tempfile.mkdtemp(prefix="steelyard-sandbox-"))
    try:
        prepare_folder(folder, stdin, files or {})
        request = request_for(command, folder, at, environment or {}, limits, readable)
        return _result(_supervised(request), at, limits)
    finally:
        if not supervisor.remove_folder(folder):
            log.warning("the scratch folder %s could not be removed", folder)


def request_for(
    command: Sequence[str],
    folder: Path,
    level: Level,
    environment: Mapping[str, str],
    limits: RunLimits,
    readable: Sequence[str | Path] = (),
) -> Request:
    """Return the supervisor's request to run a program in a prepared folder."""
    opened = [Path(path).absolute() for path in readable]
    words = [_program_path(command, opened, level), *command[1:]]
    home = HOME if level == "bubblewrap" else folder / "scratch"
    return Request(
        command=bubblewrap_command(words, folder, opened) if level == "bubblewrap" else words,
        environment={**_clean_environment(home, folder, level), **environment},
        folder=str(folder),
        working_folder=str(folder / "scratch"),
        stdin=str(folder / "stdin"),
        caller=os.getpid(),
        drop_privileges=level == "basic",
        seconds=limits.seconds,
        cpu_seconds=limits.cpu_seconds,
        memory=limits.memory,
        file_size=limits.file_size,
        processes=limits.processes + OWN_PROCESSES[level],
        output=limits.output,
    )


def _program_path(command: Sequence[str], readable: Sequence[Path], level: Level) -> str:
    """Find the program. A relative path is returned unchanged; it is relative to the scratch folder."""
    for folder in readable:
        if not folder.exists():
            raise SandboxError(f"readable folder {folder} does not exist; create it, or remove it from readable")
    if not command:
        raise SandboxError("the command is empty: pass the program and its arguments as a list")
    if os.sep in command[0] and not Path(command[0]).is_absolute():
        return command[0]
    found = shutil.which(command[0], path=_search_path())
    if found is None:
        raise SandboxError(f"program {command[0]!r} was not found in {_search_path()}: pass its absolute path")
    if level == "bubblewrap":
        require_visible(Path(found), readable)
    return found


def prepare_folder(folder: Path, stdin: str | None, files: Mapping[str, str | bytes]) -> None:
    """Create the folders of a run and write its files; ``stdin`` is ``None`` if the caller creates it."""
    for name in ("scratch", "tmp", "shm"):
        (folder / name).mkdir()
    if stdin is not None:
        (folder / "stdin").write_bytes(_encoded(stdin))
    for name, content in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise SandboxError(f"file {name!r} must be a path inside the scratch folder, such as 'data/input.txt'")
        target = folder / "scratch" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_encoded(content))


def _encoded(content: str | bytes) -> bytes:
    """Encode as UTF-8. A model may write a lone surrogate, which becomes ``?`` instead of raising an error."""
    return content.encode(errors="replace") if isinstance(content, str) else content


def _search_path() -> str:
    return f"{Path(sys.executable).parent}:{PROGRAM_PATH}"


def _clean_environment(home: Path, folder: Path, level: Level) -> dict[str, str]:
    """Return an environment without the caller's secrets. Each run gets one thread, because many runs share the CPU."""
    return {
        **kept_environment(),
        "PATH": _search_path(),
        "HOME": str(home),
        "TMPDIR": "/tmp" if level == "bubblewrap" else str(folder / "tmp"),  # noqa: S108 - private to the program
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }


def _supervised(request: Request) -> Report | None:
    """Run the request in a supervisor process. Returns ``None`` if the supervisor was killed or halted."""
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-I", "-S", supervisor.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=kept_environment(),
        start_new_session=True,
    ) as process:
        try:
            report, errors = process.communicate(json.dumps(request).encode(), request["seconds"] + SUPERVISOR_SECONDS)
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
        raise SandboxError(f"the sandbox supervisor failed: {errors.decode(errors='replace').strip()[-1000:]}")
    return cast("Report", json.loads(report))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a supervisor that does not answer, and all its descendants."""
    process.send_signal(signal.SIGSTOP)
    supervisor.kill_descendants(process.pid)
    process.kill()


def _result(report: Report | None, level: Level, limits: RunLimits) -> RunResult:
    if report is None:
        return RunResult("", "", None, signal.SIGKILL, "lost", truncated=False, seconds=limits.seconds, level=level)
    if report["error"]:
        raise SandboxError(f"the program could not be started: {report['error']}")
    code = report["returncode"]
    ended_by = -code if code < 0 else None
    if level == "bubblewrap" and SIGNAL_EXIT_BASE < code <= SIGNAL_EXIT_BASE + 64:
        ended_by = code - SIGNAL_EXIT_BASE
    return RunResult(
        stdout=report["stdout"],
        stderr=report["stderr"],
        exit_code=None if ended_by else code,
        signal=ended_by,
        stopped=cast("Literal['', 'time', 'processes']", report["stopped"]),
        truncated=report["truncated"],
        seconds=report["seconds"],
        level=level,
    )
