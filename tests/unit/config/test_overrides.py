from __future__ import annotations

from typing import Any

import pytest

from steelyard.config import load
from steelyard.config.overrides import apply_overrides, parse_overrides
from steelyard.errors import ConfigError


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        (["--loss.kl.coefficient", "0.05"], "loss.kl.coefficient", 0.05),
        (["--loss.kl.coefficient=0.05"], "loss.kl.coefficient", 0.05),
        (["--run.steps", "1_000"], "run.steps", 1000),
        (["--verify.floor", "-0.5"], "verify.floor", -0.5),
        (["--tracking.wandb", "true"], "tracking.wandb", True),
        (["--tracking.wandb=false"], "tracking.wandb", False),
        (["--evaluate.ks", "[1, 4]"], "evaluate.ks", [1, 4]),
        (["--loss.surrogate", "gspo"], "loss.surrogate", "gspo"),
        (["--tasks.file", "data/tasks.jsonl"], "tasks.file", "data/tasks.jsonl"),
        (["--run.name", "7"], "run.name", "7"),
        (["--run.name", "2024-01-02"], "run.name", "2024-01-02"),
        (["--run.name", '"quoted"'], "run.name", "quoted"),
        (["--model.quantize", "8bit"], "model.quantize", "8bit"),
        (["--model.lora", "none"], "model.lora", None),
        (["--loss.kl.coefficient", '{kind = "linear", start = 0.1, end = 0}'], "loss.kl.coefficient",
         {"kind": "linear", "start": 0.1, "end": 0}),
        (["--domain.options.kinds", '["copy"]'], "domain.options.kinds", ["copy"]),
        (["--tasks.prompt_column", "a = 1\nb"], "tasks.prompt_column", "a = 1\nb"),
        (["--credit.k", "1\nx = 2"], "credit.k", "1\nx = 2"),
    ],
)  # fmt: skip
def test_values_use_toml_syntax(words: list[str], key: str, value: Any) -> None:
    parsed = parse_overrides(words)
    assert parsed == {key: value}
    assert type(parsed[key]) is type(value)


def test_a_key_without_value_is_true() -> None:
    assert parse_overrides(["--tracking.wandb", "--run.steps", "5", "--tracking.tensorboard"]) == {
        "tracking.wandb": True,
        "run.steps": 5,
        "tracking.tensorboard": True,
    }


@pytest.mark.parametrize("words", [["run.steps", "5"], ["-v"], ["--"], ["--=5"]])
def test_an_argument_that_is_not_an_override_is_rejected(words: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"overrides look like --section\.key value"):
        parse_overrides(words)


def test_overrides_do_not_modify_their_input() -> None:
    data = {"verify": {"verifiers": [{"weight": 1.0}]}}
    result = apply_overrides(data, {"verify.verifiers.0.weight": 2.0, "run.steps": 3})
    assert result == {"verify": {"verifiers": [{"weight": 2.0}]}, "run": {"steps": 3}}
    assert data == {"verify": {"verifiers": [{"weight": 1.0}]}}


def test_a_number_becomes_the_start_of_its_schedule() -> None:
    data = {"loss": {"kl": {"coefficient": 0.1}}}
    result = apply_overrides(data, {"loss.kl.coefficient.kind": "linear", "loss.kl.coefficient.end": 0.0})
    assert result["loss"]["kl"]["coefficient"] == {"start": 0.1, "kind": "linear", "end": 0.0}


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("run.steps.x", "run.steps is 3, not a table"),
        ("verify.verifiers.1.weight", "'1' is not a valid index for a list of 1"),
        ("verify.verifiers.first", "'first' is not a valid index for a list of 1"),
    ],
)
def test_a_path_through_a_value_is_rejected(key: str, reason: str) -> None:
    data = {"run": {"steps": 3}, "verify": {"verifiers": [{}]}}
    with pytest.raises(ConfigError, match=reason):
        apply_overrides(data, {key: 1})


def test_overrides_take_precedence_over_the_recipe() -> None:
    config = load("sequences", ["--run.steps", "7", "--sampling.group_size=4", "--domain.options.max_length", "2"])
    assert (config.run.steps, config.sampling.group_size) == (7, 4)
    assert config.domain is not None
    assert config.domain.options["max_length"] == 2
    assert load("sequences", {"run.steps": 7}).run.steps == 7


@pytest.mark.parametrize("word", ["none", "None"])
def test_none_unsets_a_table_or_a_key(word: str) -> None:
    assert load("text").model.lora is not None
    assert load("text", ["--model.lora", word]).model.lora is None
    assert load("infill", ["--judge", word, "--warmstart", word]).judge is None
    recipe = load("bricks")
    assert (recipe.evaluate.temperature, recipe.sampling.group_size) == (0.5, 8)
    assert load("bricks", ["--evaluate.temperature", word]).evaluate.temperature is None
    reset = load("bricks", ["--sampling.group_size", word, "--loss.entropy", word, "--domain.options.max_bricks", word])
    assert reset.sampling.group_size == 16
    assert not reset.loss.entropy.coefficient.ever_positive
    assert reset.domain is not None
    assert "max_bricks" not in reset.domain.options


def test_an_unknown_key_cannot_be_unset() -> None:
    with pytest.raises(ConfigError, match=r"evaluate\.temprature: unknown key; did you mean evaluate\.temperature"):
        load("bricks", ["--evaluate.temprature", "none"])
