from __future__ import annotations

from steelyard.config import Key, describe
from steelyard.config.schema import known_keys, takes_only_text


def test_describe_lists_every_key_with_type_default_and_help() -> None:
    keys = {key.key: key for key in describe()}
    assert keys["run.steps"] == Key("run.steps", "int", "200", "Number of training steps.")
    assert keys["model.autocast"].type == "bfloat16|float16"
    assert keys["model.autocast"].default == ""
    assert keys["evaluate.ks"][1:3] == ("list of int", "[1]")
    assert keys["tracking.console"].default == "true"
    assert keys["loss.kl.coefficient"][1:3] == ("number or table", "0.0")
    assert keys["credit.length_penalty.start"].default == "required"
    assert "verify.verifiers[].weight" in keys
    assert len(keys) == len(describe())


def test_every_key_has_help_that_ends_in_a_full_stop() -> None:
    assert [key.key for key in describe() if not key.help.endswith(".")] == []


def test_known_keys_contain_tables_and_leaves() -> None:
    assert {"loss", "loss.kl", "loss.kl.coefficient", "loss.kl.coefficient.start", "model.lora"} <= known_keys()
    assert "verify.verifiers.weight" in known_keys()


def test_text_keys_are_recognised() -> None:
    assert takes_only_text("run.name")
    assert takes_only_text("tasks.file")
    assert takes_only_text("verify.verifiers.0.name")
    assert takes_only_text("loss.surrogate")
    assert not takes_only_text("run.steps")
    assert not takes_only_text("model.lora.targets")
    assert not takes_only_text("domain.options.anything")
    assert not takes_only_text("no.such.key")
