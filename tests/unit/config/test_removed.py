"""Names from earlier versions: in a recipe, the error names the replacement; run folders can still be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard import config as configs
from steelyard.config.removed import RENAMED_KEYS, RENAMED_OPTIONS, RENAMED_VALUES, with_new_names
from steelyard.config.schema import known_keys
from steelyard.domains.registry import find_domain, make_domain
from steelyard.errors import ConfigError
from steelyard.folders import read_run


@pytest.mark.parametrize(("old", "new"), RENAMED_KEYS.items())
def test_a_recipe_with_an_old_key_is_told_the_new_one(old: str, new: str) -> None:
    assert new in known_keys()
    assert old not in known_keys()
    with pytest.raises(ConfigError) as caught:
        configs.load("sequences", {old: "x"})
    assert f"use {new}" in str(caught.value)


@pytest.mark.parametrize(("old", "new"), RENAMED_VALUES.items())
def test_a_recipe_with_an_old_value_is_told_the_new_one(old: tuple[str, Any], new: Any) -> None:
    key, value = old
    with pytest.raises(ConfigError) as caught:
        configs.load("sequences", {key: value})
    assert f"{key} = {value!r}" in str(caught.value)
    assert f"use {new!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("domain", "old", "new"), [(domain, *names) for domain, table in RENAMED_OPTIONS.items() for names in table.items()]
)
def test_an_old_option_of_a_domain_is_answered_with_the_new_one(domain: str, old: str, new: str) -> None:
    table, _, option = old.rpartition(".")
    with pytest.raises(ConfigError, match=f"use domain.options.{new}"):
        make_domain(domain, **({table: {option: 1}} if table else {option: 1}))
    assert new.partition(".")[0] in find_domain(domain).__dataclass_fields__  # type: ignore[attr-defined]


def test_the_configuration_of_an_earlier_run_is_read_under_the_new_names(tmp_path: Path) -> None:
    config = configs.load("bricks")
    text = configs.dump(config)
    for old, new in (("max_difficulty", "hardest"), ("max_bricks", "most"), ("storage", "carrier")):
        assert f"{old} = " in text
        text = text.replace(f"{old} = ", f"{new} = ")
    text = text.replace('supports = "stored"', 'supports = "replayed"').replace('"stop"', '"go on"')
    folder = tmp_path / config.run.name
    folder.mkdir()
    (folder / "config.toml").write_text(text, encoding="utf-8")
    read = read_run(folder)
    assert read.domain == config.domain
    assert read.reference == config.reference
    assert (read.sampling.supports, read.verify.when_unscored) == ("recomputed", "continue")


def test_new_names_do_not_change_other_tables() -> None:
    tables = {"domain": {"name": "mine", "options": {"most": 3}}, "run": {"steps": 2}}
    assert with_new_names(tables) == tables
