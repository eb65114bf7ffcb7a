"""Sandboxed programs that try to steal the caller's keys, reach its files during clean-up, or waste its time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.framework.process import ROOT
from benchmarks.robustness.attack_programs import Attack
from steelyard.verification.sandbox import Level, RunLimits, level_in_force, run_code
from steelyard.verification.sandbox.supervisor import GRACE

SECRET = "a key of the trainer"
KEYS = """
import ctypes, os
calls = {"x86_64": (250, 248, 249), "aarch64": (219, 217, 218), "riscv64": (219, 217, 218)}
keyctl, add_key, request_key = calls.get(os.uname().machine, (0, 0, 0))
libc = ctypes.CDLL(None, use_errno=True)
"""
CALLER = f"""{KEYS}
import sys
from steelyard.verification.sandbox import run_code
SESSION = -3
if not keyctl or libc.syscall(keyctl, 1, None) < 0:
    print("no keyrings here")
    sys.exit()
secret = {SECRET!r}.encode()
if libc.syscall(add_key, b"user", b"steelyard attack", secret, ctypes.c_size_t(len(secret)), SESSION) < 0:
    print("no keys here")
    sys.exit()
print(run_code(sys.argv[1], level=sys.argv[2]).stdout)
"""
READ_KEY = f"""{KEYS}
key = libc.syscall(request_key, b"user", b"steelyard attack", None, 0)
found = ctypes.create_string_buffer(100)
libc.syscall(keyctl, 11, key, found, ctypes.c_size_t(100))
print("found", found.value.decode())
"""
BOMB_SECONDS = 60
GENERATIONS = 9
BOMB = f"""
import os, time
deadline = time.monotonic() + {BOMB_SECONDS}
for _ in range({GENERATIONS}):
    if os.fork() == 0 and {{sessions}}:
        os.setsid()
while time.monotonic() < deadline:
    pass
"""


def read_the_keyring(level: Level) -> Callable[[Path], str | None]:
    def run(_folder: Path) -> str | None:
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        done = subprocess.run(
            [sys.executable, "-c", CALLER, READ_KEY, level],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        return f"the program read the key: {done.stdout}" if SECRET in done.stdout else None

    return run


def replace_folder_by_link(folder: Path) -> str | None:
    """Replace the program's own folder with a link to one of the caller's, which is possible at the basic level."""
    private, moved = folder / "private", folder / "moved"
    private.mkdir()
    (private / "key").write_text("x", encoding="ascii")
    (private / "key").chmod(0o400)
    private.chmod(0o500)
    code = f"""
import os
own = os.path.dirname(os.getcwd())
os.rename(own, {str(moved)!r})
os.symlink({str(private)!r}, own)
print("done")
"""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        ran = run_code(code, level="basic")
    finally:
        tempfile.tempdir = before
    if "done" not in ran.stdout:
        return f"the attack did not start: {ran}"
    modes = [path.stat().st_mode & 0o777 for path in (private, private / "key")]
    return None if modes == [0o500, 0o400] else f"modes of the caller's files were changed to {list(map(oct, modes))}"


def bomb(level: Level, *, sessions: bool) -> Callable[[Path], str | None]:
    """Start 512 busy processes; the run must return within the documented time."""

    def run(_folder: Path) -> str | None:
        limits = RunLimits(seconds=5)
        began = time.monotonic()
        ran = run_code(BOMB.format(sessions=sessions), level=level, limits=limits)
        took, most = time.monotonic() - began, limits.seconds + 2 * GRACE
        if ran.ok or took > most:
            return f"{ran.stopped or 'nothing'} stopped it; it returned after {took:.1f} s, allowed are {most:.0f} s"
        return None

    return run


LEVELS: tuple[Level, ...] = ("basic", "bubblewrap") if level_in_force() == "bubblewrap" else ("basic",)
ATTACKS = (
    *(Attack("sandbox", f"reading the caller's session keyring, {level}", read_the_keyring(level)) for level in LEVELS),
    Attack("sandbox", "a link in place of the scratch folder", replace_folder_by_link),
    *(
        Attack(
            "sandbox", f"fork bomb{', a session each' * sessions}, {level}", bomb(level, sessions=sessions), quick=False
        )
        for level in LEVELS
        for sessions in (False, True)
    ),
)
