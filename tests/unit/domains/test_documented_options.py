"""The pages about the shipped domains use the domains' current option names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from steelyard.config.removed import RENAMED_OPTIONS
from steelyard.domains.bricks.domain import Bricks
from steelyard.domains.bricks.reward import RewardSettings
from steelyard.domains.infill.domain import Infill
from steelyard.domains.theories.domain import Theories
from steelyard.domains.theories.model.limits import Limits
from steelyard.domains.theories.reward.reward import TheoryReward

DOCS = Path(__file__).parents[3] / "docs"
TABLES: dict[str, dict[str, type[Any]]] = {
    "bricks": {"": Bricks, "reward": RewardSettings},
    "infill": {"": Infill},
    "theories": {"": Theories, "reward": TheoryReward, "limits": Limits},
}
"""Domain -> the dataclasses of ``domain.options`` and of the tables below it."""


def page_of(domain: str) -> str:
    return (DOCS / f"{domain}.md").read_text(encoding="utf-8")


def options_in_toml(page: str, tables: dict[str, type[Any]]) -> Iterator[str]:
    """Yield the options set in TOML blocks, with the name of their table."""
    for block in re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        options = tomllib.loads(block).get("domain", {}).get("options", {})
        for name, value in options.items():
            yield from (f"{name}.{inner}" for inner in value) if name in tables else [name]


def options_in_tables(page: str) -> Iterator[str]:
    """Yield the names in the first column of tables of domain options."""
    for table in re.findall(r"^\| domain option \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE):
        for row in table.splitlines():
            yield from re.findall(r"`([^`]+)`", row.split("|")[1])


def unknown_options(page: str, domain: str) -> list[str]:
    tables = TABLES[domain]
    known = {f"{table}.{one.name}".lstrip(".") for table, owner in tables.items() for one in fields(owner)}
    return [name for name in (*options_in_toml(page, tables), *options_in_tables(page)) if name not in known]


def old_names(page: str, domain: str) -> list[str]:
    """Return former option names in backticks, alone or with a value."""
    names = {name for old in RENAMED_OPTIONS[domain] for name in (old, old.rpartition(".")[2])}
    return [marked for marked in re.findall(r"`([^`\n]+)`", page) if marked.partition(" = ")[0] in names]


@pytest.mark.parametrize("domain", TABLES)
def test_the_page_uses_current_option_names(domain: str) -> None:
    page = page_of(domain)
    assert unknown_options(page, domain) == []
    assert old_names(page, domain) == []


def test_an_outdated_page_is_detected() -> None:
    page = page_of("infill")
    assert unknown_options(page.replace("max_holes = 24", "most = 24"), "infill") == ["most"]
    assert unknown_options(page.replace("| `min_length`, ", "| `shortest`, "), "infill") == ["shortest"]
    assert unknown_options(page_of("theories").replace("max_words = 200", "long = 200"), "theories") == ["reward.long"]
    assert old_names("at most `most` bricks, `hardest = 6.0`", "bricks") == ["most", "hardest = 6.0"]
