"""A stranger's runs, and the commands of the user who opens them, for the attacks on trust.

The stranger trains a small run with their own state folder and modifies it. The user opens this run from the command
line, in this process, without having trusted anything. Any code that runs leaves a file behind.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from steelyard.cli import main
from steelyard.config.loading import read_tables
from steelyard.config.overrides import apply_overrides

MARKER = "EXECUTED"
"""The file that executed code creates in the attack's folder."""
CHECKER = "def score(task, text):\n    return len(text.split())\n"
EVIL = """\
from pathlib import Path
Path(__file__).resolve().with_name("EXECUTED").touch()

from steelyard.constraints.automaton import Automaton

def score(task, text):
    return len(text.split())

def part(found):
    return 0.0

def advantage(reward_M, group_M):
    return reward_M - reward_M.mean()

class Anything(Automaton):
    def start(self, task):
        return 0
    def moves(self, state):
        return {"a": 0, "b": 0}
    def may_end(self, state):
        return True
"""
TINY: dict[str, Any] = {
    "run": {"name": "theirs", "steps": 1},
    "model": {
        "device": "cpu",
        "scratch": {
            "layers": 1,
            "width": 16,
            "heads": 2,
            "kv_heads": 1,
            "max_length": 32,
            "vocabulary": ["a", "b", "<unused>"],
        },
    },
    "tasks": {"prompts": ["a", "b", "a b", "b a"], "held_out": 2},
    "verify": {"verifier": "checker:score", "pool": "inline"},
    "sampling": {"max_new_tokens": 4, "group_size": 2, "tasks_per_step": 2},
    "optimiser": {"warmup_steps": 0},
    "tracking": {"console": False, "samples_every": 0},
}
SEQUENCES: dict[str, Any] = {
    **{name: TINY[name] for name in ("run", "optimiser", "tracking")},
    "model": {"device": "cpu", "scratch": {**TINY["model"]["scratch"], "max_length": 64}},
    "sampling": {"max_new_tokens": 8, "group_size": 2, "tasks_per_step": 1},
    "domain": {"name": "sequences"},
}
del SEQUENCES["model"]["scratch"]["vocabulary"]
RUN = "runs/theirs"
OPEN = (("eval", RUN), ("sample", RUN), ("check", f"{RUN}/config.toml"))
RESUME = (("train", "--resume", RUN), ("train", f"{RUN}/config.toml", "--run.name", "again"))


class Answer(NamedTuple):
    """A command's exit code and output."""

    code: int
    output: str


@contextmanager
def working_as(folder: Path, who: str = "user") -> Iterator[None]:
    """Work in a folder as a user with their own list of trusted runs; unload modules imported from it afterwards."""
    here, path, before, state = Path.cwd(), list(sys.path), set(sys.modules), os.environ.get("XDG_STATE_HOME")
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    os.environ["XDG_STATE_HOME"] = str(folder.parent / f"state of {who}")
    try:
        yield
    finally:
        os.chdir(here)
        sys.path[:] = path
        del os.environ["XDG_STATE_HOME"]
        os.environ.update({} if state is None else {"XDG_STATE_HOME": state})
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder.resolve())):
                del sys.modules[name]


def call(*words: str) -> Answer:
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = main(words)
    return Answer(code, output.getvalue())


def write_recipe(tables: Mapping[str, Any], path: str = "recipe.toml") -> None:
    """Write a recipe, leaving out keys whose value is ``None``."""
    plain = {name: {key: value for key, value in table.items() if value is not None} for name, table in tables.items()}
    Path(path).write_text(tomli_w.dumps(plain), encoding="utf-8")


def foreign_run(folder: Path, tables: Mapping[str, Any] = TINY) -> None:
    """Train a run as a stranger, in the working folder of the user who opens it."""
    with working_as(folder, "somebody else"):
        Path("checker.py").write_text(CHECKER, encoding="utf-8")
        write_recipe(tables)
        answer = call("train", "recipe.toml")
        if answer.code:
            raise RuntimeError(answer.output)
        Path("recipe.toml").unlink()


def tamper(keys: Mapping[str, Any]) -> None:
    """Change the run's configuration and add the code it now references."""
    config = Path(RUN) / "config.toml"
    write_recipe(apply_overrides(read_tables(config), keys), str(config))
    Path("evil.py").write_text(EVIL, encoding="utf-8")


def executed(folder: Path, answer: Answer, words: Sequence[str]) -> str | None:
    found = [str(path) for path in folder.parent.rglob(MARKER)]
    return f"{' '.join(words)} executed it ({', '.join(found)}): {answer.output}" if found else None


def check_rejected(folder: Path, commands: Sequence[Sequence[str]], naming: Sequence[str]) -> str | None:
    """Check that every command ends with a message that names the code it would execute, and ``--trust``."""
    for words in commands:
        answer = call(*words)
        if wrong := executed(folder, answer, words):
            return wrong
        missing = [word for word in (*naming, "--trust") if word not in answer.output]
        if answer.code != 2 or missing:
            return f"{' '.join(words)} ended with {answer.code}, without {missing}: {answer.output}"
    return None
