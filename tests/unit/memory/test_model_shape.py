"""Model shapes: from the formula, from the table, and from a configuration without weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, DeepseekV3Config, LlamaConfig, MixtralConfig, Qwen2Config, Qwen3MoeConfig

from steelyard.errors import PolicyError
from steelyard.memory.model_shape import KNOWN_SHAPES, SPECIAL_TOKEN_COUNT, decoder, find_shape, read_shape
from steelyard.policies.scratch import SPECIAL_TOKENS

SMALL: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def save(folder: Path, kind: Any, name: str, *, tied: bool) -> Any:
    config = kind(**SMALL, num_key_value_heads=2, vocab_size=50, tie_word_embeddings=tied)
    config.architectures = [name]
    config.save_pretrained(folder)
    return config


@pytest.mark.parametrize(
    ("kind", "name", "tied", "bias"),
    [
        (LlamaConfig, "LlamaForCausalLM", True, False),
        (LlamaConfig, "LlamaForCausalLM", False, False),
        (Qwen2Config, "Qwen2ForCausalLM", False, True),
    ],
)
def test_the_formula_agrees_with_the_model(tmp_path: Path, kind: Any, name: str, tied: bool, bias: bool) -> None:
    config = save(tmp_path, kind, name, tied=tied)
    shape = decoder(layers=2, width=32, feed_forward=48, heads=4, kv_heads=2, vocabulary=50, tied=tied, bias=bias)
    assert read_shape(str(tmp_path)) == shape
    assert shape.parameters == sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())
    assert shape.cached == 2 * 2 * 2 * 8
    attention = 2 * (32 + 32) + 2 * (32 + 16)
    assert shape.lora_parameters_per_rank == 2 * (attention + 3 * (32 + 48))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("smollm2-135m", 134.515e6),
        ("qwen2.5-0.5b", 494.03e6),
        ("qwen2.5-7b", 7.6156e9),
        ("qwen2.5-14b", 14.770e9),
        ("qwen2.5-32b", 32.764e9),
        ("llama-3.1-8b", 8.0303e9),
        ("llama-3.1-70b", 70.554e9),
    ],
)
def test_the_table_has_the_published_sizes(name: str, parameters: float) -> None:
    assert KNOWN_SHAPES[name].parameters == pytest.approx(parameters, rel=1e-4)


def test_a_known_model_is_found_without_a_hub() -> None:
    assert find_shape("Qwen/Qwen2.5-14B-Instruct") is KNOWN_SHAPES["qwen2.5-14b"]


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"nothing.*qwen2\.5-14b"):
        find_shape(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    "config",
    [
        MixtralConfig(**SMALL, num_local_experts=4),
        Qwen3MoeConfig(**SMALL, num_experts=4),
        DeepseekV3Config(**SMALL, n_routed_experts=4),
    ],
    ids=lambda config: config.model_type,
)
def test_a_mixture_of_experts_is_rejected(tmp_path: Path, config: Any) -> None:
    config.save_pretrained(tmp_path)
    with pytest.raises(PolicyError, match="mixture of 4 experts"):
        read_shape(str(tmp_path))


def test_the_number_of_special_tokens() -> None:
    assert len(SPECIAL_TOKENS) == SPECIAL_TOKEN_COUNT
