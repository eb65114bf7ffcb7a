"""How much a run is shut in: which level this machine allows, found by trying, and what a program sees at it.

``bubblewrap``: Linux namespaces made by the ``bwrap`` program; no privilege is needed, but the kernel must allow user
namespaces. ``floor``: limits, a clean environment and a sure end, everywhere.
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

Level = Literal["bubblewrap", "floor"]
HOME = Path("/sandbox")
"""Where a program under bubblewrap finds its scratch folder."""
OWN_PROCESSES: dict[Level, int] = {"bubblewrap": 2, "floor": 0}
"""Processes of the level itself among those below the supervisor."""
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store")
SETTINGS = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime")
NAMESPACES = ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
KEPT_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Of the caller's environment these alone pass: some Pythons do not start without."""
PROBE_SECONDS = 30
GIVES: dict[Level, str] = {
    "bubblewrap": "no network, reads the system and this Python only, writes its scratch folder only",
    "floor": "limits and a sure end; network, reading and writing outside are NOT stopped",
}

log = logging.getLogger("steelyard.verification")


@dataclass(frozen=True)
class Bubblewrap:
    """The program and the options it takes here, or why it cannot be used."""

    program: str = ""
    options: tuple[str, ...] = ()
    reason: str = ""


def level_in_force() -> Level:
    """The best level of this machine; found once, by running a program at it."""
    return "floor" if bubblewrap().reason else "bubblewrap"


def describe_level() -> str:
    """One sentence: the level in force, what it gives, and why it is not a better one."""
    level, reason = level_in_force(), bubblewrap().reason
    return f"{level} ({GIVES[level]})" + (f", because {reason}" if reason else "")


def settle(level: Level | Literal["auto"]) -> Level:
    """The level to run at. One that is asked for by name and is not there is an error; ``auto`` never is."""
    if level == "auto":
        _announce()
        return level_in_force()
    if level == "bubblewrap" and bubblewrap().reason:
        raise SandboxError(
            f"sandbox level 'bubblewrap' is not to be had: {bubblewrap().reason}. "
            f"Or take level='floor', which does not stop network, reading and writing outside"
        )
    if level not in GIVES:
        raise SandboxError(f"sandbox level {level!r}: there are 'auto', {', '.join(map(repr, GIVES))}")
    return level


@cache
def _announce() -> None:
    severity = logging.INFO if level_in_force() == "bubblewrap" else logging.WARNING
    log.log(severity, "sandbox level: %s", describe_level())


@cache
def bubblewrap() -> Bubblewrap:
    """Bubblewrap as it works here, tried with this Python; options that older versions lack are left out."""
    program = shutil.which("bwrap")
    if sys.platform != "linux":
        return Bubblewrap(reason=f"bubblewrap needs Linux namespaces and this is {platform.system()}")
    if program is None:
        return Bubblewrap(reason="the program bwrap is not installed (apt install bubblewrap, dnf install bubblewrap)")
    complaint = ""
    for options in (("--disable-userns",), ()):
        found = Bubblewrap(program, options)
        complaint = _complaint(found)
        if not complaint:
            return found
    return Bubblewrap(
        reason=f"bwrap is installed but does not work here ({complaint}); the kernel or the container must allow user "
        f"namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns; seccomp profile)"
    )


def _complaint(found: Bubblewrap) -> str:
    """What goes wrong when this Python says one word inside; nothing if nothing does."""
    command = [*_walls(found, readable=()), "--chdir", "/", "--", sys.executable, "-I", "-S", "-c", "print('inside')"]
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
    """``command`` inside: its scratch folder, ``/tmp`` and ``/dev/shm`` are in ``folder``; all else is read-only."""
    writable = [
        *("--bind", str(folder / "scratch"), str(HOME)),
        *("--bind", str(folder / "tmp"), "/tmp"),  # noqa: S108 - the program's own
        *("--bind", str(folder / "shm"), "/dev/shm"),  # noqa: S108
        *("--remount-ro", "/dev"),
    ]
    return [*_walls(bubblewrap(), readable, writable), "--chdir", str(HOME), "--", *command]


def _walls(found: Bubblewrap, readable: Iterable[Path], writable: Sequence[str] = ()) -> list[str]:
    """Everything of the command line but the command. The root is an empty folder in memory, made read-only last.
    Writable folders come before readable ones, since this Python may lie below ``/tmp``.
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
        found.program,
        *NAMESPACES,
        *("--unshare-cgroup-try", "--hostname", "sandbox", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *found.options,
        *("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"),
        *writable,
        *system,
        *("--remount-ro", "/"),
    ]


def kept_environment() -> dict[str, str]:
    """What a Python needs to start, and nothing else of the caller's environment."""
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}


def interpreter_folders() -> list[Path]:
    """The folders of this Python, by every name under which the links from ``sys.executable`` reach them."""
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
    """Those of ``paths`` that do not lie within the system's folders or within one another."""
    chosen: list[Path] = []
    for path in sorted(set(paths)):
        if path == Path("/"):
            raise SandboxError("the whole file system cannot be made readable; name the folders that are needed")
        if not any(path.is_relative_to(other) for other in (*map(Path, SYSTEM), *chosen)):
            chosen.append(path)
    return chosen


def require_visible(program: Path, readable: Iterable[Path]) -> None:
    """Refuse a program that would not be found inside, naming the folder to open."""
    inside = (*map(Path, SYSTEM), *interpreter_folders(), *readable)
    for path in (program, program.resolve()):
        if not any(path.is_relative_to(folder) for folder in inside):
            raise SandboxError(
                f"{program} is not visible in the sandbox: {path.parent} is closed; give readable=['{path.parent}']"
            )
