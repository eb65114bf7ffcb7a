"""The command line accepts every command in the README and the first pages; tests/learning runs the README's Python."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from steelyard import config as configs
from steelyard.cli import COMMANDS, options_of, parser_of, split_overrides
from steelyard.templates import write_template

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *(f"docs/{name}.md" for name in ("installation", "usage", "recipes", "configuration")))


def commands(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [part.strip() for line in lines for part in line.split("&&") if part.strip().startswith("steelyard")]


@pytest.mark.parametrize("line", sorted({line for page in PAGES for line in commands(page)}))
def test_every_command_is_accepted(line: str, folder: Path) -> None:
    write_template(folder)
    name, *words = shlex.split(line)[1:]
    parser = parser_of(name, import_module(f"steelyard.commands.{COMMANDS[name][0]}"))
    plain, overrides = split_overrides(words, options_of(parser))
    arguments = parser.parse_args(plain)
    recipe = getattr(arguments, "recipe", None) or "sequences"
    assert configs.load(recipe, overrides)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_commands(page: str) -> None:
    assert commands(page)


def test_the_readme_leads_from_a_first_run_to_a_verifier() -> None:
    assert {shlex.split(line)[1] for line in commands("README.md")} >= {"train", "eval", "sample", "init", "check"}
