"""Sandbox levels: which level this machine supports, and what a program can see at that level.

``bubblewrap`` uses Linux namespaces created by the ``bwrap`` program. It needs no privileges, but the kernel must allow
user namespaces. ``basic`` works everywhere: it sets limits and a clean environment, and always ends the program.
"""

from __future__ import annotations

import logging
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from steelyard.errors import SandboxError

Level = Literal["bubblewrap", "basic"]
HOME = Path("/sandbox")
"""Path of the scratch folder inside bubblewrap."""
OWN_PROCESSES: dict[Level, int] = {"bubblewrap": 2, "basic": 0}
"""Number of processes that the level itself adds below the supervisor."""
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store")
SETTINGS = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime")
NAMESPACES = ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
KEPT_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""The only variables taken from the caller's environment. Some Python builds do not start without these variables."""
PROBE_SECONDS = 30
PROTECTION: dict[Level, str] = {
    "bubblewrap": "no network; can read only the system and this Python; can write only its scratch folder",
    "basic": "limits and a guaranteed end; does NOT block the network or access to files outside the scratch folder",
}

RENAMED: dict[str, Level] = {"floor": "basic"}
"""Former name of a level -> its current name."""

log = logging.getLogger("steelyard.verification")


@dataclass(frozen=True)
class Bubblewrap:
    """The bwrap program with the options it supports, or the reason why it cannot be used."""

    program: str = ""
    options: tuple[str, ...] = ()
    reason: str = ""


def level_in_force() -> Level:
    """Return the best level that works on this machine."""
    return "basic" if bubblewrap().reason else "bubblewrap"


def describe_level() -> str:
    """Describe the level in one sentence: its protection, and why no better level is available."""
    level, reason = level_in_force(), bubblewrap().reason
    return f"{level} ({PROTECTION[level]})" + (f", because {reason}" if reason else "")


def resolve_level(level: str) -> Level:
    """Return the level to use. Raises an error if the requested level is not available; ``auto`` always works."""
    if level in RENAMED:
        log.warning("sandbox level %r was renamed: use level=%r", level, RENAMED[level])
        level = RENAMED[level]
    if level == "auto":
        _announce()
        return level_in_force()
    if level == "bubblewrap" and bubblewrap().reason:
        raise SandboxError(
            f"sandbox level 'bubblewrap' is not available: {bubblewrap().reason}. Alternatively, use level='basic', "
            "which does not block the network or access to files outside the scratch folder"
        )
    for known in PROTECTION:
        if level == known:
            return known
    raise SandboxError(f"unknown sandbox level {level!r}: choose 'auto', {', '.join(map(repr, PROTECTION))}")


@cache
def _announce() -> None:
    severity = logging.INFO if level_in_force() == "bubblewrap" else logging.WARNING
    log.log(severity, "sandbox level: %s", describe_level())


@cache
def bubblewrap() -> Bubblewrap:
    """Find bubblewrap and test it with this Python, without the options that older versions lack."""
    program = shutil.which("bwrap")
    if sys.platform != "linux":
        return Bubblewrap(reason=f"bubblewrap needs Linux namespaces, but this is {platform.system()}")
    if program is None:
        return Bubblewrap(reason="the program bwrap is not installed (apt install bubblewrap, dnf install bubblewrap)")
    error = ""
    for options in (("--disable-userns",), ()):
        candidate = Bubblewrap(program, options)
        error = _probe_error(candidate)
        if not error:
            return candidate
    return Bubblewrap(
        reason=f"bwrap is installed but does not work here ({error}); the kernel or the container must allow user "
        f"namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns; seccomp profile)"
    )


def _probe_error(candidate: Bubblewrap) -> str:
    """Run this Python inside bubblewrap. Return the error message, or an empty string on success."""
    command = [
        *_bubblewrap_options(candidate, readable=()),
        "--chdir",
        "/",
        "--",
        sys.executable,
        "-I",
        "-S",
        "-c",
        "print('inside')",
    ]
    try:
        done = subprocess.run(  # noqa: S603
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            stdin=subprocess.DEVNULL,
            env=kept_environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.stdout == "inside\n" else (done.stderr.strip().partition("\n")[0] or f"exit {done.returncode}")


def bubblewrap_command(command: Sequence[str], folder: Path, readable: Iterable[Path]) -> list[str]:
    """Return the bwrap command line. Only the scratch folder, ``/tmp`` and ``/dev/shm`` are writable."""
    writable = [
        *("--bind", str(folder / "scratch"), str(HOME)),
        *("--bind", str(folder / "tmp"), "/tmp"),  # noqa: S108 - private to the program
        *("--bind", str(folder / "shm"), "/dev/shm"),  # noqa: S108
        *("--remount-ro", "/dev"),
    ]
    return [*_bubblewrap_options(bubblewrap(), readable, writable), "--chdir", str(HOME), "--", *command]


def _bubblewrap_options(bwrap: Bubblewrap, readable: Iterable[Path], writable: Sequence[str] = ()) -> list[str]:
    """Return the command line up to the command.

    The root is an empty folder in memory, which becomes read-only last. Writable folders precede readable ones, because
    this Python may be installed below ``/tmp``.
    """
    system: list[str] = []
    for path in map(Path, SYSTEM):
        if path.is_symlink():
            system += ["--symlink", str(path.readlink()), str(path)]
        elif path.exists():
            system += ["--ro-bind", str(path), str(path)]
    for name in SETTINGS:
        system += ["--ro-bind-try", name, name]
    for path in uncovered([*interpreter_folders(), *readable]):
        system += ["--ro-bind", str(path), str(path)]
    return [
        bwrap.program,
        *NAMESPACES,
        *("--unshare-cgroup-try", "--hostname", "sandbox", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *bwrap.options,
        *("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"),
        *writable,
        *system,
        *("--remount-ro", "/"),
    ]


def kept_environment() -> dict[str, str]:
    """Return the variables that Python needs to start, and nothing else from the caller's environment."""
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}


def interpreter_folders() -> list[Path]:
    """Return the folders of this Python, including every symbolic link that leads from ``sys.executable`` to them."""
    named = {Path(sys.prefix), Path(sys.base_prefix)}
    real = {path.resolve() for path in named}
    step = Path(sys.executable)
    steps = [step]
    while step.is_symlink():
        step = step.parent / step.readlink()
        steps.append(step)
    reached = {step.parent.parent for step in steps}
    return sorted(named | real | {path for path in reached if path.resolve() in real})


def uncovered(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that are neither inside a system folder nor inside one another."""
    chosen: list[Path] = []
    for path in sorted(set(paths)):
        if path == Path("/"):
            raise SandboxError("readable = / is not allowed: list the folders that the program needs")
        if not any(path.is_relative_to(other) for other in (*map(Path, SYSTEM), *chosen)):
            chosen.append(path)
    return chosen


def require_visible(program: Path, readable: Iterable[Path]) -> None:
    """Raise an error if the program is not visible inside the sandbox."""
    inside = (*map(Path, SYSTEM), *interpreter_folders(), *readable)
    for path in (program, program.resolve()):
        if not any(path.is_relative_to(folder) for folder in inside):
            raise SandboxError(f"{program} is not visible in the sandbox: pass readable=['{path.parent}']")
