"""Command arguments are separated from configuration overrides, and errors are explained."""

from __future__ import annotations

import re

import pytest

from steelyard.cli import COMMANDS, explain, options_of, overview, parser_of, split_overrides
from steelyard.commands import evaluate
from steelyard.commands.output.keys import keys_help
from steelyard.config import describe
from steelyard.config.schema import known_keys
from steelyard.errors import PolicyError


@pytest.mark.parametrize(
    ("line", "plain", "overrides"),
    [
        ("sequences --run.steps 5", "sequences", "--run.steps 5"),
        ("--run.steps 5 sequences", "sequences", "--run.steps 5"),
        ("--resume runs/a.b --verify.floor -1", "--resume runs/a.b", "--verify.floor -1"),
        ("file.toml --run.name=x --tracking.wandb --tasks 4", "file.toml --tasks 4", "--run.name=x --tracking.wandb"),
        ("x --json --loss.kl.coefficient 0.1 --k 1,4", "x --json --k 1,4", "--loss.kl.coefficient 0.1"),
        ("x --prompt=1.5", "x --prompt=1.5", ""),
        ("infill --judge none --warmstart=none", "infill", "--judge none --warmstart=none"),
        ("--judge none --resume runs/x", "--resume runs/x", "--judge none"),
    ],
)
def test_overrides_are_separated_from_arguments(line: str, plain: str, overrides: str) -> None:
    assert split_overrides(line.split(), {"--tasks", "--checkpoint"}) == (plain.split(), overrides.split())


def test_command_options_take_precedence_over_sections_of_the_same_name() -> None:
    own = options_of(parser_of("eval", evaluate))
    assert split_overrides(["x", "--tasks", "4", "--checkpoint", "best", "--judge", "none"], own) == (
        ["x", "--tasks", "4", "--checkpoint", "best"],
        ["--judge", "none"],
    )


def test_the_overview_names_every_command() -> None:
    assert all(f"\n  {name} " in overview() for name in COMMANDS)


def test_help_lists_every_key() -> None:
    text = keys_help()
    assert all(f"--{key.key} " in text for key in describe())
    assert "--section.key none" in text
    assert "--judge none" in text


def test_errors_are_explained_with_their_notes_but_bugs_are_not() -> None:
    error = PolicyError("no such model")
    error.add_note("resume with: this")
    assert explain(error) == "no such model\nresume with: this"
    assert explain(ValueError("a bug")) == ""

    class OutOfMemoryError(RuntimeError): ...

    advice = explain(OutOfMemoryError("CUDA out of memory\nlong"))
    keys = re.findall(r"(?:model|sampling|optimiser)\.\w+", advice)
    assert len(keys) >= 3
    assert set(keys) <= known_keys()
