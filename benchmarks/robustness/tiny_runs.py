"""Train a tiny policy through the real command line in separate processes, for the attacks on runs.

The processes are forked from a server that has already imported torch, so a run takes about a second.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["steelyard.cli", "steelyard.run", "steelyard.commands.train"])

CONFIG = """\
run = {steps = 4, name = "tiny"}
tasks.prompts = ["a", "b", "a b"]
verify = {verifier = "own:score", pool = "inline"}
sampling = {max_new_tokens = 4, group_size = 2, tasks_per_step = 2}
checkpoint.every = 2
tracking = {console = true, samples_every = 1}
model.device = "cpu"
model.threads = 1
model.scratch = {vocabulary = ["a", "b"], width = 16, layers = 1, heads = 2, kv_heads = 1, max_length = 32}
"""
"""Configuration of a run whose steps take milliseconds; `TRAIN` starts it."""
SCORE = "def score(task, text):\n    return float(text.count('a'))\n"
TRAIN = ("train", "tiny.toml")
RUN = Path("runs/tiny")
SECONDS = 300.0
"""A command that takes longer than this counts as hanging, even on a busy machine."""


def write_run(folder: Path, *, score: str = SCORE, config: str = CONFIG) -> None:
    """Write a user's verifier and the configuration that names it."""
    (folder / "own.py").write_text(score, encoding="utf-8")
    (folder / "tiny.toml").write_text(config, encoding="utf-8")


@dataclass(frozen=True)
class Command:
    """A running command whose output goes to files."""

    process: BaseProcess
    out_file: Path
    error_file: Path

    @property
    def out(self) -> str:
        return self.out_file.read_text(encoding="utf-8", errors="surrogateescape") if self.out_file.is_file() else ""

    @property
    def error(self) -> str:
        return self.error_file.read_text(encoding="utf-8", errors="surrogateescape")

    def send(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait(self) -> int:
        """Return the exit code; if the process hangs, kill it and raise."""
        self.process.join(SECONDS)
        if self.process.exitcode is None:
            self.process.kill()
            raise TimeoutError(f"still running after {SECONDS:g} s; its standard error ends with {self.error[-500:]!r}")
        return self.process.exitcode

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; raise if the command ends first."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            if self.process.exitcode is not None:
                raise RuntimeError(f"the command exited early with {self.process.exitcode}: {self.error[-500:]!r}")
            if time.monotonic() > deadline:
                self.process.kill()
                raise TimeoutError(f"the command did not reach the expected state within {SECONDS:g} s")
            time.sleep(0.02)


def start(folder: Path, *words: str, out: Path | None = None, before: Callable[[], None] | None = None) -> Command:
    """Start ``steelyard WORDS`` in ``folder``.

    ``out`` receives its standard output, and ``before`` is called first in its process; both must be picklable.
    """
    number = len(list(folder.glob("error-*.txt")))
    error_file, out_file = folder / f"error-{number}.txt", folder / f"out-{number}.txt"
    error_file.touch()
    arguments = (folder, words, out or out_file, error_file, before)
    process = _FORKED.Process(target=_command, args=arguments)
    process.start()
    return Command(process, out or out_file, error_file)


def steelyard(folder: Path, *words: str, before: Callable[[], None] | None = None) -> tuple[int, Command]:
    """Run ``steelyard WORDS`` to completion, and return the exit code and the command."""
    command = start(folder, *words, before=before)
    return command.wait(), command


def _command(
    folder: Path, words: tuple[str, ...], out: Path, error_file: Path, before: Callable[[], None] | None
) -> None:
    os.chdir(folder)
    for descriptor, target in ((1, out), (2, error_file)):
        opened = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False, errors="backslashreplace")  # noqa: SIM115
    sys.path.insert(0, str(folder))
    if before is not None:
        before()
    from steelyard.cli import main

    sys.exit(main(words))
