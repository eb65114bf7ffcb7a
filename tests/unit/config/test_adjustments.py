"""Values that depend on other keys: the learning rate of small models, and warm-ups in short runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard.config import build, dump, load, recipes
from steelyard.config.loss import PRETRAINED_LR, SCRATCH_LR

OWN: dict[str, Any] = {"tasks": {"prompts": ["a"]}, "verify": {"verifier": "checker:verify"}}
SCRATCH: dict[str, Any] = {**OWN, "model": {"scratch": {"vocabulary": ["a"]}}}
PRETRAINED: dict[str, Any] = {**OWN, "model": {"path": "some/model"}}


def test_a_model_from_scratch_has_its_own_default_learning_rate() -> None:
    assert build(SCRATCH).optimiser.lr == SCRATCH_LR
    assert build(PRETRAINED).optimiser.lr == PRETRAINED_LR
    assert build({**SCRATCH, "optimiser": {"weight_decay": 0.1}}).optimiser.lr == SCRATCH_LR
    assert build({**SCRATCH, "optimiser": {"lr": PRETRAINED_LR}}).optimiser.lr == PRETRAINED_LR


def test_the_resolved_configuration_fixes_the_learning_rate(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(dump(build(SCRATCH)).replace(f"lr = {SCRATCH_LR}", "lr = 0.007"))
    assert load(path).optimiser.lr == 0.007, "for example written by an older version with another default"
    assert load(path, {"optimiser.lr": None}).optimiser.lr == SCRATCH_LR


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("name", recipes())
def test_every_recipe_loads_with_a_few_steps(name: str, steps: int, caplog: pytest.LogCaptureFixture) -> None:
    config, whole = load(name, ["--run.steps", str(steps)]), load(name)
    warmup = whole.optimiser.warmup_steps
    assert config.optimiser.warmup_steps == (warmup if warmup < steps else 0)
    noticed = [f"optimiser.warmup_steps = {warmup} must be smaller than run.steps ({steps}); using 0"]
    assert [record.message for record in caplog.records] == [
        f"{name}: {notice}" for notice in noticed * (warmup >= steps)
    ]


def test_warm_ups_that_are_too_long_are_shortened_to_a_tenth_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    config = load(
        "bricks",
        {
            "run.steps": 50,
            "optimiser.warmup_steps": 50,
            "loss.entropy.coefficient": {"start": 0.1, "warmup": 60},
            "loss.kl.coefficient": {"start": 0.1, "warmup": 49},
            "warmstart": {"examples": 320, "batch": 32, "warmup_steps": 10},
        },
    )
    assert config.optimiser.warmup_steps == 5
    assert config.loss.entropy.coefficient.warmup == 5
    assert config.loss.kl.coefficient.warmup == 49
    assert config.warmstart is not None
    assert config.warmstart.warmup_steps == 1
    assert len(caplog.records) == 3
    caplog.clear()
    assert build(config.model_dump(exclude_none=True)) == config
    assert not caplog.records
