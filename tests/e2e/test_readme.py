"""The commands in the README are valid; tests/learning runs its Python examples."""

from __future__ import annotations

import shlex
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.first_use_trials import readme_blocks as blocks
from steelyard import config as configs
from steelyard.cli import COMMANDS, options_of, parser_of, split_overrides
from steelyard.templates import write_template


def commands() -> list[str]:
    lines = [line.partition(" #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [part.strip() for line in lines for part in line.split("&&") if part.strip().startswith("steelyard")]


@pytest.mark.parametrize("line", commands())
def test_every_command_is_accepted(line: str, folder: Path) -> None:
    write_template(folder)
    name, *words = shlex.split(line)[1:]
    parser = parser_of(name, import_module(f"steelyard.commands.{COMMANDS[name][0]}"))
    plain, overrides = split_overrides(words, options_of(parser))
    arguments = parser.parse_args(plain)
    recipe = getattr(arguments, "recipe", None) or "sequences"
    assert configs.load(recipe, overrides)


def test_the_readme_shows_the_main_commands() -> None:
    assert {shlex.split(line)[1] for line in commands()} >= {"train", "eval", "sample", "init", "check"}
