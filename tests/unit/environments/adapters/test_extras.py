"""Adapters without their packages installed, used as a domain, and loaded by import path."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import pytest

from steelyard.compose.environments import environment_of
from steelyard.domains.registry import make_domain
from steelyard.environments.adapters import (
    EnvironmentDomain,
    GymnasiumEnvironment,
    TextArenaEnvironment,
    VerifiersEnvironment,
)
from steelyard.errors import ConfigError, MissingExtraError

named = GymnasiumEnvironment("FrozenLake-v1", actions=["left", "down", "right", "up"])


@pytest.mark.parametrize(
    ("environment", "module", "extra"),
    [
        (GymnasiumEnvironment("FrozenLake-v1"), "gymnasium", "gymnasium"),
        (TextArenaEnvironment("Mastermind-v0"), "textarena", "textarena"),
        (VerifiersEnvironment("gsm8k"), "verifiers.v1", "verifiers"),
    ],
)
def test_a_missing_package_is_reported_with_its_extra(
    environment: Any, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "steelyard.environments.adapters.verifiers_policy", raising=False)
    with pytest.raises(MissingExtraError, match=rf"steelyard\[{extra}\]"):
        pickle.loads(pickle.dumps(environment))


def test_an_import_path_may_name_an_environment() -> None:
    assert environment_of(f"{__name__}:named") is named


def test_seeds_of_an_environment_are_a_domain_with_disjoint_splits() -> None:
    path = "steelyard.environments.adapters:EnvironmentDomain"
    domain = make_domain(path, environment="gymnasium:FrozenLake-v1", validation=2, held_out=3, is_slippery=False)
    assert isinstance(domain, EnvironmentDomain)
    assert domain.verifier().options == {"is_slippery": False}
    assert [domain.size(split) for split in ("train", "validation", "held_out")] == [None, 2, 3]
    assert [domain.task("validation", 1).spec, domain.task("held_out", 2).spec, domain.task("train", 0).spec] == [
        {"seed": 1},
        {"seed": 4},
        {"seed": 5},
    ]
    with pytest.raises(ConfigError, match=r"'lake'.*gymnasium:ID"):
        EnvironmentDomain("lake")
