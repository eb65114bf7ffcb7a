"""The registry of domains."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from steelyard.domains import domain_names, make_domain, registry
from steelyard.domains.sequences import Sequences
from steelyard.errors import ConfigError


def install(monkeypatch: pytest.MonkeyPatch, name: str, path: str) -> None:
    entry = EntryPoint(name, path, registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [entry] if group == registry.GROUP else [])


def test_a_built_in_domain_is_built_with_its_parameters() -> None:
    assert make_domain("sequences", symbols=3, kinds=["sort"]) == Sequences(kinds=("sort",), symbols=3)


def test_a_domain_of_another_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "mine", "steelyard.domains.sequences:Sequences")
    assert isinstance(make_domain("mine"), Sequences)
    assert set(domain_names()) == {"mine", *registry.BUILT_IN}


def test_a_package_cannot_replace_a_built_in_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "sequences", "elsewhere:Other")
    assert isinstance(make_domain("sequences"), Sequences)


@pytest.mark.parametrize(
    ("name", "hint"), [("sequence", "did you mean 'sequences'"), ("zzz", "there are: arithmetic, bricks")]
)
def test_an_unknown_name_gets_a_suggestion(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        make_domain(name)


def test_an_unknown_parameter_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"domain 'sequences': .*'lenght'; its parameters are: kinds, min_length"):
        make_domain("sequences", lenght=3)


@pytest.mark.parametrize(
    ("name", "parameters", "shown"),
    [
        ("bricks", {"world_size": 5}, "world_size = 5"),
        ("bricks", {"max_bricks": "x"}, "max_bricks = 'x'"),
        ("infill", {"max_length": "x"}, "max_length = 'x'"),
    ],
)
def test_a_parameter_of_the_wrong_type_is_a_config_error(name: str, parameters: dict[str, Any], shown: str) -> None:
    with pytest.raises(ConfigError, match=f"domain '{name}' cannot be built with {re.escape(shown)}: ") as caught:
        make_domain(name, **parameters)
    assert isinstance(caught.value.__cause__, TypeError | ValueError), "--debug shows the cause"


@pytest.mark.parametrize("path", ["not_there_at_all:Domain", "steelyard.domains.sequences:Absent"])
def test_a_domain_that_cannot_be_loaded_is_reported_with_the_reason(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "mine", path)
    with pytest.raises(ConfigError, match=f"domain 'mine': '{path}': "):
        make_domain("mine")
