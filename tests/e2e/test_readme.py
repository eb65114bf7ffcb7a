"""What the README tells people to type is accepted, and its Python runs."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from steelyard import config as configs
from steelyard.cli import COMMANDS, parser_of, split_overrides
from steelyard.templates import write_template
from steelyard.tracking import read_metrics

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    lines = [line.partition(" #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [part.strip() for line in lines for part in line.split("&&") if part.strip().startswith("steelyard")]


@pytest.mark.parametrize("line", commands())
def test_every_command_is_accepted(line: str, folder: Path) -> None:
    write_template(folder)
    name, *words = shlex.split(line)[1:]
    plain, overrides = split_overrides(words)
    arguments = parser_of(name, import_module(f"steelyard.commands.{COMMANDS[name][0]}")).parse_args(plain)
    recipe = getattr(arguments, "recipe", None) or "sequences"
    assert configs.load(recipe, overrides)


def test_there_are_commands_to_try() -> None:
    assert {shlex.split(line)[1] for line in commands()} >= {"train", "eval", "sample", "init", "check"}


@pytest.mark.parametrize(("number", "name", "steps"), [(0, "evens", 60), (1, "sums", 20)])
def test_the_python_examples_run(number: int, name: str, steps: int) -> None:
    program = "import steelyard\n" + blocks("python")[number]
    shorter = program.replace(f'"steps": {steps}', '"steps": 2')
    assert shorter != program
    exec(compile(shorter, "README.md", "exec"), {"__name__": "__main__"})
    assert [row["step"] for row in read_metrics(Path(f"runs/{name}/metrics.jsonl"))] == [1, 2]
