"""``run_code`` and ``run_command``: results, limits and levels."""

from __future__ import annotations

import ctypes
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchmarks.robustness.attack_programs import sandbox as sandbox_attacks
from benchmarks.verification.escapes import MARK, Attempt
from steelyard.errors import SandboxError
from steelyard.types import Task
from steelyard.verification.sandbox import (
    Level,
    RunLimits,
    describe_level,
    level_in_force,
    run_code,
    run_command,
    supervisor,
)
from steelyard.verification.sandbox import levels as levels_module
from steelyard.verification.sandbox import run as run_module
from tests.sandboxes import LEVELS, NEEDS_BUBBLEWRAP

PAGE = Path(__file__).parents[3] / "docs/sandbox.md"
at_every_level = pytest.mark.parametrize("level", LEVELS)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that contains the scratch folders."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def fresh() -> Iterator[None]:
    """Clear the cached level before and after the test."""
    levels_module.bubblewrap.cache_clear()
    levels_module._announce.cache_clear()
    yield
    levels_module.bubblewrap.cache_clear()
    levels_module._announce.cache_clear()


@at_every_level
def test_input_output_and_exit_code(level: Level) -> None:
    code = "import sys; print(input() + open('data/word.txt').read()); print('oh', file=sys.stderr); sys.exit(3)"
    ran = run_code(code, stdin="left ", files={"data/word.txt": b"right"}, level=level)
    assert (ran.stdout, ran.stderr, ran.exit_code, ran.signal) == ("left right\n", "oh\n", 3, None)
    assert (ran.stopped, ran.truncated, ran.level, ran.ok) == ("", False, level, False)
    assert run_code("", level=level).ok


@at_every_level
def test_a_signal_is_distinguished_from_an_exit_code(level: Level) -> None:
    ran = run_code("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", level=level)
    assert (ran.exit_code, ran.signal, ran.ok) == (None, signal.SIGSEGV, False)


def test_a_lone_surrogate_is_replaced() -> None:
    ran = run_code("print(input()) # \ud800", stdin="a\udfffb", level="basic")
    assert (ran.stdout, ran.ok) == ("a?b\n", True)


@at_every_level
def test_any_program_runs_without_a_shell(level: Level) -> None:
    assert run_command(["echo", "$HOME; *"], level=level).stdout == "$HOME; *\n"


@at_every_level
def test_the_clock_ends_a_program_that_ignores_signals(level: Level) -> None:
    start = time.monotonic()
    ran = run_command(["sh", "-c", "trap '' TERM; echo on; sleep 1000"], limits=RunLimits(seconds=2), level=level)
    assert (ran.stopped, ran.timed_out, ran.ok, ran.stdout) == ("time", True, False, "on\n")
    assert 2 <= ran.seconds < time.monotonic() - start < 200


@at_every_level
def test_the_cpu_limit_ends_a_busy_program(level: Level) -> None:
    ran = run_code("while True: pass", limits=RunLimits(seconds=60, cpu_seconds=1), level=level)
    assert (ran.stopped, ran.signal, ran.exit_code) == ("", signal.SIGKILL, None)


@at_every_level
def test_output_is_truncated_at_the_limit_and_the_program_continues(level: Level) -> None:
    code = "import sys\nsys.stdout.write('x' * 300_000)\nsys.stdout.flush()\nprint('end', file=sys.stderr)"
    ran = run_code(code, limits=RunLimits(output=1000), level=level)
    assert (ran.stdout, ran.stderr, ran.truncated, ran.ok) == ("x" * 1000, "end\n", True, True)
    exact = run_code("print('x' * 999)", limits=RunLimits(output=1000), level=level)
    assert (len(exact.stdout), exact.truncated) == (1000, False)


@at_every_level
def test_too_many_processes_end_the_run(level: Level) -> None:
    code = (
        "import subprocess, sys\ncount, seconds = input().split()\n"
        "for p in [subprocess.Popen(['sleep', seconds]) for _ in range(int(count))]: p.wait()"
    )
    assert run_code(code, stdin="3 0.3", limits=RunLimits(processes=4), level=level).ok
    too_many = run_code(code, stdin="4 1000", limits=RunLimits(processes=4, seconds=200), level=level)
    assert too_many.stopped == "processes"


@at_every_level
def test_ended_orphans_are_not_counted(level: Level) -> None:
    code = """
import os, time
for _ in range(40):
    if os.fork() == 0:
        os.fork()
        os._exit(0)
    os.wait()
    time.sleep(0.03)
"""
    assert run_code(code, limits=RunLimits(processes=24), level=level).ok


@at_every_level
def test_the_callers_environment_is_hidden(level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "open sesame")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/needed/to/start")
    code = "import os; print(sorted(os.environ))"
    ran = run_code(code, environment={"EXTRA": "1"}, level=level)
    assert "SECRET_KEY" not in ran.stdout
    assert "EXTRA" in ran.stdout
    assert "LD_LIBRARY_PATH" in ran.stdout


@at_every_level
def test_the_callers_open_files_are_not_inherited(level: Level, tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        code = "import os; print([fd for fd in range(3, 200) if os.path.exists(f'/proc/self/fd/{fd}')])"
        assert run_code(code, level=level).stdout == "[]\n"


@at_every_level
def test_the_scratch_folder_is_removed_whatever_it_contains(level: Level, scratch: Path, tmp_path_factory: Any) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "precious").write_text("kept")
    code = f"""
import os
os.symlink({str(outside)!r}, "link")
os.mkdir("closed"); open("closed/file", "w"); os.chmod("closed", 0)
for _ in range(1500):
    os.mkdir("deeper"); os.chdir("deeper")
print("made")
"""
    assert run_code(code, level=level).stdout == "made\n"
    assert list(scratch.iterdir()) == []
    assert (outside / "precious").read_text() == "kept"


@at_every_level
def test_the_callers_process_settings_do_not_change(level: Level) -> None:
    run_code("", level=level)
    found = ctypes.c_int(-1)
    get_child_subreaper = 37
    assert ctypes.CDLL(None).prctl(get_child_subreaper, ctypes.byref(found), 0, 0, 0) == 0
    assert found.value == 0


@at_every_level
def test_several_threads_can_run_programs(level: Level) -> None:
    with ThreadPoolExecutor(4) as threads:
        rans = threads.map(lambda number: run_code(f"print({number})", level=level), range(8))
    assert [ran.stdout for ran in rans] == [f"{number}\n" for number in range(8)]


@at_every_level
def test_the_program_has_no_capabilities(level: Level) -> None:
    code = "print([line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapPrm', 'CapEff'))])"
    assert run_code(code, level=level).stdout == f"{['0' * 16] * 2}\n"


@NEEDS_BUBBLEWRAP
def test_under_bubblewrap_only_the_scratch_folders_can_be_written() -> None:
    closed = ["/", "/usr", "/dev", "/proc", "/etc", sys.prefix, sys.base_prefix]
    code = f"""
import os
def writes(folder):
    try:
        open(os.path.join(folder, "steelyard-was-here"), "w").close()
        return True
    except OSError:
        return False
print([folder for folder in {[*closed, ".", "/tmp", "/dev/shm", "/sandbox"]} if writes(folder)])
"""
    assert run_code(code, level="bubblewrap").stdout == "['.', '/tmp', '/dev/shm', '/sandbox']\n"


@NEEDS_BUBBLEWRAP
def test_under_bubblewrap_a_folder_can_be_made_readable(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("seen")
    code = f"print(open({str(tmp_path / 'data')!r}).read()); open({str(tmp_path / 'other')!r}, 'w')"
    closed = run_code(code, level="bubblewrap")
    opened = run_code(code, level="bubblewrap", readable=[tmp_path])
    assert "FileNotFoundError" in closed.stderr
    assert opened.stdout == "seen\n"
    assert "Read-only file system" in opened.stderr
    assert not (tmp_path / "other").exists()


@NEEDS_BUBBLEWRAP
def test_under_bubblewrap_a_program_elsewhere_needs_a_readable_folder(tmp_path: Path) -> None:
    program = tmp_path / "hello"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o700)
    with pytest.raises(SandboxError, match=rf"not visible in the sandbox.*readable=\['{tmp_path}'\]"):
        run_command([str(program)], level="bubblewrap")
    assert run_command([str(program)], level="bubblewrap", readable=[tmp_path]).stdout == "hello\n"


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up", ""])
def test_files_must_lie_in_the_scratch_folder(name: str, scratch: Path) -> None:
    with pytest.raises(SandboxError, match="must be a path inside the scratch folder"):
        run_code("", files={name: "x"}, level="basic")
    assert list(scratch.iterdir()) == []


def test_errors_for_commands_that_cannot_run(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="'no-such-program' was not found in "):
        run_command(["no-such-program"], level="basic")
    with pytest.raises(SandboxError, match="command is empty"):
        run_command([], level="basic")
    with pytest.raises(SandboxError, match=r"could not be started: .*No such file"):
        run_command(["./missing"], level="basic")
    with pytest.raises(SandboxError, match=f"{tmp_path}/gone does not exist"):
        run_code("", readable=[tmp_path / "gone"], level="basic")
    with pytest.raises(SandboxError, match="'auto', 'bubblewrap', 'basic'"):
        run_code("", level="cellar")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_limits_are_positive(value: float) -> None:
    with pytest.raises(ValueError, match="limit seconds"):
        RunLimits(seconds=value)


def test_a_program_that_kills_or_halts_its_supervisor_is_reported_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "SUPERVISOR_SECONDS", 1.0)
    for number in ("KILL", "STOP"):
        command = ["sh", "-c", f"kill -{number} $PPID; exec sleep 1000"]
        attempt = Attempt("basic", f"lost-{number}-{os.getpid()}", Path())
        ran = run_command(command, level="basic", environment={MARK: attempt.word}, limits=RunLimits(seconds=2))
        assert (ran.stopped, ran.ok, ran.exit_code) == ("lost", False, None)
        wait_until_gone(attempt)


@NEEDS_BUBBLEWRAP
def test_the_best_level_is_used_and_described() -> None:
    assert level_in_force() == "bubblewrap"
    assert run_code("").level == "bubblewrap"
    assert describe_level().startswith("bubblewrap (no network")


@pytest.mark.usefixtures("fresh")
def test_without_bubblewrap_the_basic_level_is_used_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None if name == "bwrap" else f"/usr/bin/{name}")
    with caplog.at_level(logging.INFO, "steelyard.verification"):
        assert [run_command(["true"]).level for _ in range(2)] == ["basic", "basic"]
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert re.search(r"basic \(.*NOT block.*\), because .*apt install bubblewrap", warning.getMessage())
    with pytest.raises(SandboxError, match=r"'bubblewrap' is not available.*apt install bubblewrap"):
        run_code("", level="bubblewrap")


@pytest.mark.usefixtures("fresh")
def test_a_broken_bubblewrap_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_bubblewrap(tmp_path, monkeypatch, "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    assert level_in_force() == "basic"
    assert "No permissions to create new namespace" in describe_level()
    assert "must allow user namespaces" in describe_level()


@NEEDS_BUBBLEWRAP
@pytest.mark.usefixtures("fresh")
def test_an_older_bubblewrap_is_used_without_newer_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("bwrap")
    reject = 'case "$*" in *--disable-userns*) echo "bwrap: Unknown option --disable-userns" >&2; exit 1;; esac'
    fake_bubblewrap(tmp_path, monkeypatch, f'{reject}\nexec {real} "$@"')
    assert level_in_force() == "bubblewrap"
    assert levels_module.bubblewrap().options == ()


@pytest.mark.usefixtures("fresh")
def test_the_former_name_of_a_level_is_accepted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert levels_module.resolve_level("floor") == "basic"
    assert "'floor' was renamed: use level='basic'" in caplog.text


def test_systems_other_than_linux_use_the_basic_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert level_in_force() == "basic"
    assert "needs Linux namespaces" in describe_level()


def test_the_root_folder_cannot_be_readable() -> None:
    with pytest.raises(SandboxError, match="readable = / is not allowed"):
        levels_module.uncovered([Path("/")])
    assert levels_module.uncovered(map(Path, ["/a/b", "/usr/x", "/a", "/ab"])) == [Path("/a"), Path("/ab")]


def test_descendants_are_found_with_and_without_the_kernels_list(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import subprocess; subprocess.run(['sleep', '1000'])"
    with subprocess.Popen([sys.executable, "-c", program]) as child:
        deadline = time.monotonic() + 100
        while len(supervisor.descendants(child.pid)) < 1 and time.monotonic() < deadline:
            time.sleep(0.02)
        listed = supervisor.descendants(child.pid)
        monkeypatch.setattr(supervisor, "_children", supervisor._scan_for_children())
        assert supervisor.descendants(child.pid) == listed
        assert len(listed) == 1
        supervisor.kill_descendants(child.pid)
        child.kill()


def test_counting_stops_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this test every process has a child, so a full count would never end."""
    monkeypatch.setattr(supervisor, "_children", lambda pid: [pid + 1])
    assert supervisor.has_more_descendants(1, than=64)
    monkeypatch.setattr(supervisor, "_children", lambda pid: [pid + 1] if pid < 65 else [])
    assert not supervisor.has_more_descendants(1, than=64)
    assert supervisor.has_more_descendants(1, than=63)


def test_processes_are_killed_as_they_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(supervisor, "_children", lambda pid: done.append(f"look {pid}") or [pid + 1] if pid < 3 else [])
    monkeypatch.setattr(os, "kill", lambda pid, _: done.append(f"kill {pid}"))
    supervisor.kill_descendants(1)
    assert done == ["look 1", "kill 2", "look 2", "kill 3"]


@pytest.mark.skipif(sys.platform != "linux", reason="keyrings exist only on Linux")
@at_every_level
def test_a_program_has_a_separate_keyring(level: Level, tmp_path: Path) -> None:
    assert sandbox_attacks.read_the_keyring(level)(tmp_path) is None


def test_a_link_in_place_of_the_scratch_folder_is_not_followed(tmp_path: Path) -> None:
    assert sandbox_attacks.replace_folder_by_link(tmp_path) is None


def test_folders_without_access_are_removed_and_links_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test the fallback for a failing ``shutil.rmtree``, which succeeds for root."""

    def fails(_folder: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(shutil, "rmtree", fails)
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    (outside / "file").write_text("kept")
    outside.chmod(0o500)
    inner = folder / "a" / "b" / "c"
    inner.mkdir(parents=True)
    (folder / f"{supervisor.MOVED}0").mkdir()
    for place in (folder, folder / "a", inner):
        (place / "link").symlink_to(outside)
        (place / "file").write_text("x")
    for place in (inner, inner.parent, folder / "a", folder):
        place.chmod(0)
    assert supervisor.remove_folder(folder)
    assert not folder.exists()
    assert (outside.stat().st_mode & 0o777, (outside / "file").read_text()) == (0o500, "kept")


def test_the_example_in_the_documentation_runs() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, str(PAGE), "exec"), names)
    task = Task("sum", "", spec={"cases": [("1 2 3", 6), ("4", 4)]})
    assert names["adds_up"](task, "print(sum(map(int, input().split())))") == 1.0
    assert names["adds_up"](task, "print(6)") == 0.5
    assert names["adds_up"](task, "print(") == 0.0


def fake_bubblewrap(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def wait_until_gone(attempt: Attempt) -> None:
    deadline = time.monotonic() + 100
    while attempt.left_running() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert attempt.left_running() == []
