"""Memory estimates by hand, and the table of extras against the package's own."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, LlamaConfig

from steelyard.commands.machine import CORE, EXTRAS, available_memory, missing
from steelyard.commands.memory import Need, Size, needs, size_of
from steelyard.errors import PolicyError

SIZE = Size(parameters=1000, linear=800, borders=10, cached=64)


def test_full_training_is_weights_reference_gradients_and_adam() -> None:
    single, eight_bit, half = needs(SIZE)[:3]
    assert (single.rollout, single.update) == (2 * 4 * 1000, (2 * 4 + 4 + 8) * 1000)
    assert eight_bit.update - single.rollout == 4 * 1000 + 2 * 1000
    assert (half.rollout, half.update) == (single.rollout // 2, single.update // 2)


def test_lora_pays_for_the_adapter_alone_and_quantises_the_inside() -> None:
    half, eight_bit, four_bit = needs(SIZE, rank=2)[3:]
    adapter = 2 * 10
    assert half.rollout == 2 * 1000 + 4 * adapter
    assert half.update == half.rollout + (4 + 8) * adapter
    assert half.rollout - eight_bit.rollout == 800
    assert half.rollout - four_bit.rollout == 1200


@pytest.mark.parametrize(("memory", "verdict"), [(1000, "fits"), (900, "tight"), (799, "no")])
def test_a_fifth_is_left_for_activations(memory: int, verdict: str) -> None:
    assert Need("some way", rollout=100, update=800).fits(memory) == verdict


def test_the_size_is_read_without_weights(tmp_path: Path) -> None:
    shape: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    config = LlamaConfig(**shape, num_key_value_heads=2, vocab_size=50, tie_word_embeddings=True)
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(tmp_path)
    size = size_of(str(tmp_path))
    assert size.parameters == sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())
    assert size.cached == 2 * 2 * 2 * 8
    attention = 2 * (32 + 32) + 2 * (32 + 16)
    assert size.borders == 2 * (attention + 3 * (32 + 48))
    assert size.linear == 2 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48)


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="nothing"):
        size_of(str(tmp_path / "nothing"))


def test_the_table_of_extras_is_that_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"dev"}
    for name, extra in EXTRAS.items():
        named = {requirement.partition(">")[0].partition("=")[0] for requirement in extras[name]}
        assert set(extra.packages) == {package for package in named if not package.startswith("steelyard[")}
    assert {requirement.partition(">")[0] for requirement in project["dependencies"]} == set(CORE) - {"steelyard"}


def test_this_machine_is_looked_at() -> None:
    memory = available_memory()
    assert memory is None or memory > 0
    assert missing(EXTRAS["data"].__class__(("no-such-package",), "")) == ["no-such-package"]
