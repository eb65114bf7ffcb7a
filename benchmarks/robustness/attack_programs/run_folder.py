"""A second process, a file manager or a signal interferes with the folder of a running training run."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.robustness.attack_programs import Attack
from benchmarks.robustness.tiny_runs import RUN, TRAIN, Command, start, steelyard, write_run

ENDLESS = (*TRAIN, "--run.steps", "1000000", "--checkpoint.every", "5")
RESUME = ("train", "--resume", str(RUN))


def training(folder: Path, *words: str) -> Command:
    """Start a run that has written a checkpoint and continues training."""
    write_run(folder)
    command = start(folder, *ENDLESS, *words)
    command.wait_until(lambda: any((folder / RUN / "checkpoints").glob("step-*")))
    return command


def second_process(words: tuple[str, ...], folder: Path) -> str | None:
    """Check that the second process is rejected and that the first one is unaffected."""
    first = training(folder)
    before = (folder / RUN / "config.toml").read_bytes()
    start_time = time.monotonic()
    code, second = steelyard(folder, *words)
    seconds = time.monotonic() - start_time
    first.send(signal.SIGTERM)
    if first.wait() != 130:
        return f"the first run was harmed: {first.error[-300:]}"
    if code != 2 or "Traceback" in second.error:
        return f"the second process ended with {code} after {seconds:.1f} s: {second.error[-300:]}"
    if (folder / RUN / "config.toml").read_bytes() != before:
        return "the second process wrote to the run"
    return None


def killed_owner(folder: Path) -> str | None:
    """Check that SIGKILL leaves no lock behind: the run can be resumed immediately."""
    first = training(folder)
    first.send(signal.SIGKILL)
    first.wait()
    code, second = steelyard(folder, *RESUME, "--run.steps", "1")
    return None if code == 0 else f"exit code {code}: {second.error[-300:]}"


def move(folder: Path) -> None:
    (folder / RUN).rename(folder / "moved")


def delete(folder: Path) -> None:
    while (folder / RUN).exists():
        shutil.rmtree(folder / RUN, ignore_errors=True)


def replace(folder: Path) -> None:
    """Replace the folder with a copy."""
    (folder / RUN).rename(folder / "moved")
    shutil.copytree(folder / "moved", folder / RUN)


def taken_away(harm: Callable[[Path], None], message: str, folder: Path) -> str | None:
    """Check that the run stops with a message and writes nothing more to its former location."""
    command = training(folder)
    command.send(signal.SIGSTOP)
    harm(folder)
    left = sorted((folder / RUN).rglob("*"))
    command.send(signal.SIGCONT)
    code = command.wait()
    if code != 2 or message not in command.error or "Traceback" in command.error:
        return f"exit code {code}: {command.error[-300:]}"
    grown = [path for path in (folder / RUN).rglob("*") if path not in left and "checkpoints/" not in str(path)]
    return f"it continued to write: {grown[:3]}" if grown else None


ATTACKS = (
    Attack("run folder", "a second process resumes a run that is training", partial(second_process, RESUME)),
    Attack("run folder", "a second process starts the same run", partial(second_process, TRAIN)),
    Attack("run folder", "the process that holds the lock is killed", killed_owner),
    Attack("run folder", "moved during training", partial(taken_away, move, "--resume")),
    Attack("run folder", "deleted during training", partial(taken_away, delete, "was deleted"), quick=False),
    Attack("run folder", "replaced by a copy during training", partial(taken_away, replace, "was moved to")),
)
