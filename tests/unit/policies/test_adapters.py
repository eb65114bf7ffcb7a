"""Weights for another engine: under the base model's names, with the adapter merged."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model

from steelyard.compose.sampling import merged_cpu_weights
from steelyard.errors import PolicyError
from steelyard.policies.adapters import TRAINED, Lora, adapter_tensors, base_model, plain_tensors, rank_of
from steelyard.policies.reference import AdapterReference
from steelyard.policies.scratch import Architecture
from steelyard.policies.sharding import portions
from tests.tiny import rollout, tiny_policy

IDS = torch.tensor([[3, 5, 4, 6, 7]])


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("lora", [None, Lora(rank=4, alpha=6)])
def test_merged_weights_in_a_plain_model_give_the_same_model(tied: bool, lora: Lora | None) -> None:
    shape = Architecture(layers=2, width=32, heads=2, kv_heads=1, max_length=128, tie_embeddings=tied)
    policy, plain = tiny_policy(shape=shape, lora=lora), tiny_policy(shape=shape, seed=9)
    torch.manual_seed(0)
    with torch.no_grad():
        for _, parameter in policy.trainable():
            parameter.add_(0.05 * torch.randn_like(parameter))
    before = copy.deepcopy(base_model(policy.model).state_dict())
    tensors = dict(plain_tensors(policy.model))
    missing, unexpected = plain.model.load_state_dict(tensors, strict=False)
    assert not unexpected
    assert missing == (["lm_head.weight"] if tied else [])
    assert not any(tensor.requires_grad for tensor in tensors.values() if tensor.grad_fn is not None)
    with torch.no_grad():
        torch.testing.assert_close(plain.model(IDS).logits, policy.model(IDS).logits, rtol=1e-5, atol=1e-5)
    after = base_model(policy.model).state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_base_weights_are_the_model_with_its_adapter_disabled() -> None:
    policy, plain = tiny_policy(lora=Lora(rank=4)), tiny_policy(seed=9)
    with torch.no_grad():
        for _, parameter in policy.trainable():
            parameter.add_(0.1)
        plain.model.load_state_dict(dict(plain_tensors(policy.model, merged=False)), strict=False)
        on = policy.model(IDS).logits
        with policy.model.disable_adapter():
            off = policy.model(IDS).logits
        assert torch.equal(plain.model(IDS).logits, off)
        assert not torch.allclose(on, off, atol=1e-2)
    assert rank_of(policy.model) == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_sent_to_engines_are_rounded_to_their_dtype(dtype: torch.dtype) -> None:
    """A float32 adapter on a bfloat16 base would double the size of every merged matrix."""
    policy = tiny_policy(lora=Lora(rank=4))
    with torch.no_grad():
        for _, parameter in policy.trainable():
            parameter.add_(0.1)
        for name, parameter in policy.model.named_parameters():
            if "lora" not in name:
                parameter.data = parameter.to(dtype)
    wide, sent = dict(plain_tensors(policy.model)), dict(merged_cpu_weights(policy, dtype))
    assert {tensor.dtype for name, tensor in wide.items() if "proj" in name} == {torch.float32}
    assert {tensor.dtype for tensor in sent.values()} == {dtype}
    assert wide.keys() == sent.keys()
    assert all(torch.equal(tensor.to(dtype), sent[name]) for name, tensor in wide.items())


def adapted(shape: Architecture | None = None, **options: Any) -> Any:
    """A policy with an adapter built by PEFT, like one loaded from a folder, with every parameter changed."""
    bare = tiny_policy() if shape is None else tiny_policy(shape=shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        settings = {"r": 4, "lora_alpha": 6, "target_modules": "all-linear", "task_type": "CAUSAL_LM"} | options
        model = get_peft_model(bare.model, LoraConfig(**settings))
        with torch.no_grad():
            for parameter in adapter_tensors(model, TRAINED).values():
                parameter.add_(0.05 * torch.randn_like(parameter))
    return bare.with_model(model)


UNTIED = Architecture(layers=2, width=32, heads=2, kv_heads=1, max_length=128, tie_embeddings=False)


@pytest.mark.parametrize("targets", ["all-linear", ["q_proj", "embed_tokens"], ["lm_head"]], ids=str)
@pytest.mark.parametrize("options", [{}, {"use_rslora": True}, {"use_dora": True}], ids=str)
def test_merged_weights_are_the_adapted_model(targets: Any, options: dict[str, Any]) -> None:
    """Checks a single-process learner and a rank. Merging DoRA in the same way as LoRA shifted the logits by 0.66."""
    policy, plain = adapted(UNTIED, target_modules=targets, **options), tiny_policy(shape=UNTIED, seed=9)
    merged = dict(plain_tensors(policy.model))
    by_rank = dict(pair for portion in portions(policy, "merged") for pair in portion)
    assert merged.keys() == by_rank.keys() == plain.model.state_dict().keys()
    assert all(torch.equal(merged[name], by_rank[name]) for name in merged)
    plain.model.load_state_dict(merged)
    with torch.no_grad():
        torch.testing.assert_close(plain.model(IDS).logits, policy.model(IDS).logits, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"use_dora": True}, {"target_modules": ["q_proj", "embed_tokens"]}], ids=str)
def test_a_reference_adapter_has_no_dropout(options: dict[str, Any]) -> None:
    """The exact KL to an identical reference is 0, even in train mode."""
    policy = adapted(UNTIED, lora_dropout=0.5, **options)
    reference = AdapterReference(policy)
    batch = policy.collate(rollout(policy, count=2))
    policy.train(True)
    kl_N = policy.evaluate(batch, reference).kl_N.detach()
    assert float(kl_N.abs().max()) < 1e-6


def test_a_reference_adapter_does_not_change_the_base() -> None:
    """PiSSA subtracts the adapter's part from the base weights for every adapter that is added."""
    policy = adapted(init_lora_weights="pissa")
    before = policy.model(IDS).logits.detach()
    AdapterReference(policy)
    assert torch.equal(policy.model(IDS).logits, before)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("modules_to_save", ["norm"]),
        ("trainable_token_indices", [3]),
        ("bias", "all"),
        ("lora_bias", True),
        ("alora_invocation_tokens", [3, 4]),
    ],
)
@pytest.mark.filterwarnings("ignore:.lora_bias=True. was passed")
def test_adapters_that_train_more_than_lora_are_rejected(option: str, value: Any) -> None:
    with pytest.raises(PolicyError, match=r"merge_and_unload.*model\.path") as refusal:
        adapted(target_modules=["q_proj"], **{option: value})
    assert {"alora_invocation_tokens": "ALora"}.get(option, option) in str(refusal.value)


def test_an_adapter_with_another_name_is_rejected() -> None:
    bare = tiny_policy()
    model = PeftModel(bare.model, LoraConfig(target_modules=["q_proj"]), adapter_name="mine")
    with pytest.raises(PolicyError, match=r"mine.*'default'"):
        bare.with_model(model)


@pytest.mark.filterwarnings("ignore:Model has .tie_word_embeddings")
def test_an_adapter_on_one_of_two_tied_layers_is_not_merged() -> None:
    policy = adapted(target_modules=["lm_head"])
    with pytest.raises(PolicyError, match=r"embed_tokens.*lm_head.*tied.*model\.lora\.targets"):
        dict(plain_tensors(policy.model))
    with pytest.raises(PolicyError, match="tied"):
        next(portions(policy, "merged"))
