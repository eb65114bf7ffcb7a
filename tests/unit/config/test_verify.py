"""The verification section agrees with the objects that it configures."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from steelyard.config import LimitsConfig, RecycleConfig, VerifyConfig, load
from steelyard.config.verify import CAUSES
from steelyard.errors import ConfigError
from steelyard.verification import Blame, Cause, Recycling, WorkerLimits


def test_the_causes_match_the_enum() -> None:
    assert set(CAUSES) == set(Cause)


def test_the_defaults_match_the_objects() -> None:
    assert {name: value or None for name, value in LimitsConfig()} == asdict(WorkerLimits())
    assert dict(RecycleConfig()) == asdict(Recycling())
    assert VerifyConfig().tries == Blame().tries


def test_an_unknown_cause_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean timeout"):
        load("text", ["--verify.blame={timeuot='rejected'}"])
