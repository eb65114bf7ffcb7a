"""Causal policies: prompts, token offsets, dropout, and saving and loading weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from steelyard.errors import CheckpointError, PolicyError
from steelyard.policies.adapters import Lora
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.reference import AdapterReference
from steelyard.policies.scratch import closed_vocabulary_tokenizer
from steelyard.types import CutRule
from tests.tiny import WORDS, rollout, tiny_learner, tiny_policy, weights_of, with_advantages

CHAT = ({"role": "user", "content": "1 2"}, {"role": "assistant", "content": "3"})
TEMPLATE = (
    "{% for m in messages %}{{ m['content'] + ' ' }}{% endfor %}{% if add_generation_prompt %}{{ '9' }}{% endif %}"
)
SIZES: dict[str, Any] = {
    "vocab_size": len(WORDS) + 3,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64},  # learned positions, dropout 0.1
    "qwen2": {},  # biases
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "decoder_sparse_step": 1},
    "mistral": {"sliding_window": 4},
    "gemma2": {"sliding_window": 4, "query_pre_attn_scalar": 16},  # soft cap on logits
    "gemma3_text": {"sliding_window": 4},
    "cohere": {},  # scaled logits
    "granite": {"logits_scaling": 3.0},
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32, "activation_dropout": 0.3, "layerdrop": 0.3},
    "xglm": {"d_model": 32, "num_layers": 2, "attention_heads": 2, "ffn_dim": 64, "activation_dropout": 0.3},
    "bloom": {"n_layer": 2, "n_head": 2, "hidden_dropout": 0.3},  # ALiBi
    "lfm2": {},  # convolutions
}


def model_of(architecture: str, **settings: Any) -> Any:
    config = AutoConfig.for_model(architecture, **(SIZES | ARCHITECTURES.get(architecture, {}) | settings))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0, 0.25)
    return model


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_sampler_and_learner_agree_on_other_architectures(architecture: str) -> None:
    """The learner is in train mode, so remaining dropout would show; attention windows are shorter than the samples."""
    policy = CausalPolicy(model_of(architecture), closed_vocabulary_tokenizer(WORDS))
    samples = rollout(policy, count=3, rule=CutRule(0.8, 8))
    policy.train(True)
    logp_N = policy.evaluate(policy.collate(samples)).logp_N.detach().numpy()
    assert np.abs(logp_N - np.concatenate([sample.decisions.logp_N for sample in samples])).max() < 1e-5


def test_unknown_transformations_of_logits_are_rejected() -> None:
    model = model_of("llama")
    model.register_forward_hook(lambda _, __, out: setattr(out, "logits", out.logits + 0.5) or out)
    with pytest.raises(PolicyError, match=r"llama: this architecture transforms its logits .*0\.5"):
        CausalPolicy(model, closed_vocabulary_tokenizer(WORDS))


# --- prompts and text ------------------------------------------------------------------------------------------------


def test_a_string_is_encoded_without_a_template() -> None:
    policy = tiny_policy()
    assert policy.encode("0 5 12").tolist() == [3, 8, 15]
    assert policy.encode("0").dtype == np.int32


def test_an_empty_prompt_starts_with_bos() -> None:
    policy = tiny_policy()
    assert policy.encode("").tolist() == [policy.tokenizer.bos_token_id]
    policy.tokenizer.bos_token = None
    with pytest.raises(PolicyError, match="bos_token"):
        policy.encode("")


def test_chat_messages_go_through_the_template() -> None:
    policy = tiny_policy()
    with pytest.raises(PolicyError, match="no chat template"):
        policy.encode(CHAT)
    policy.tokenizer.chat_template = TEMPLATE
    assert policy.encode(CHAT).tolist() == policy.encode("1 2 3 9").tolist()


def test_every_configured_end_token_ends_a_sample() -> None:
    policy = tiny_policy()
    assert policy.end_ids == (2,)
    policy.model.generation_config.eos_token_id = [5, 2, 7]
    assert policy.end_ids == (2, 5, 7)


def test_padding_falls_back_to_the_end_token() -> None:
    model, tokenizer = model_of("llama"), closed_vocabulary_tokenizer(WORDS)
    tokenizer.pad_token = None
    assert CausalPolicy(model, tokenizer).pad_id == 2
    tokenizer.eos_token = None
    model.generation_config.eos_token_id = None
    with pytest.raises(PolicyError, match="neither a padding nor an end-of-sequence token"):
        CausalPolicy(model, tokenizer)


# --- saving and loading ----------------------------------------------------------------------------------------------


def moved(policy: CausalPolicy) -> CausalPolicy:
    tiny_learner(policy).update(with_advantages(rollout(policy, count=2)), 0)
    return policy


def logits_of(model: Any, policy: CausalPolicy) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=policy.collate(rollout(policy, count=1)).input_ids).logits


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_saved_policy_opens_with_plain_transformers(tmp_path: Path, dtype: str) -> None:
    policy = moved(tiny_policy(dtype=dtype, attention="eager"))
    policy.save_pretrained(tmp_path)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation=policy.model.config._attn_implementation)
    assert plain.dtype == policy.model.dtype
    assert torch.equal(logits_of(plain, policy), logits_of(policy.model, policy))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.encode("1 2 3") == policy.tokenizer.encode("1 2 3")
    assert tokenizer.decode([4, 5, 2], skip_special_tokens=True) == "1 2"
    assert plain.generation_config.eos_token_id == 2
    assert plain.generation_config.suppress_tokens == list(policy.excluded) == [0, 1]


def test_a_saved_adapter_opens_with_plain_peft(tmp_path: Path) -> None:
    """A second adapter in the model is not saved."""
    policy = tiny_policy(lora=Lora(4, 8))
    AdapterReference(policy)
    moved(policy).save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} >= {"adapter_config.json", "adapter_model.safetensors"}
    assert not (tmp_path / "reference").exists()
    plain = PeftModel.from_pretrained(tiny_policy().model, tmp_path)
    assert torch.equal(logits_of(plain, policy), logits_of(policy.model, policy))
    base = tiny_policy()
    assert (logits_of(base.model, policy) - logits_of(policy.model, policy)).abs().max() > 1e-2


@pytest.mark.parametrize("lora", [None, Lora(4, 8)], ids=["full", "lora"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_loaded_weights_are_bit_for_bit_equal(tmp_path: Path, lora: Lora | None, dtype: str) -> None:
    policy, fresh = moved(tiny_policy(lora=lora, dtype=dtype)), tiny_policy(lora=lora, dtype=dtype)
    policy.save_pretrained(tmp_path)
    fresh.load_weights(tmp_path)
    saved, loaded = weights_of(policy), weights_of(fresh)
    assert saved.keys() == loaded.keys()
    assert all(torch.equal(saved[name], loaded[name]) for name in saved)
    assert [name for name, _ in fresh.trainable()] == [name for name, _ in policy.trainable()]


def test_weights_of_another_shape_are_rejected(tmp_path: Path) -> None:
    tiny_policy(lora=Lora(4, 8)).save_pretrained(tmp_path / "adapter")
    with pytest.raises(CheckpointError, match="does not match the model"):
        tiny_policy().load_weights(tmp_path / "adapter")
    with pytest.raises(CheckpointError, match=r"no \.safetensors"):
        tiny_policy().load_weights(tmp_path)


def test_an_adapter_on_other_layers_is_rejected(tmp_path: Path) -> None:
    tiny_policy(lora=Lora(4, 8, ("q_proj",))).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="does not match the model"):
        tiny_policy(lora=Lora(4, 8)).load_weights(tmp_path)


def test_a_reply_outside_the_closed_vocabulary_is_reported_with_its_words() -> None:
    with pytest.raises(PolicyError, match=r"closed vocabulary: leap;.*model\.scratch\.vocabulary"):
        tiny_policy().codec.token_ids("1 leap")
