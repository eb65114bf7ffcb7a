"""Weights as another engine takes them: under the base model's names, the adapter merged in."""

from __future__ import annotations

import copy

import pytest
import torch

from steelyard.compose.sampling import shipped
from steelyard.policies.adapters import Lora, base_model, plain_tensors, rank_of
from steelyard.policies.scratch import Architecture
from tests.tiny import tiny_policy

IDS = torch.tensor([[3, 5, 4, 6, 7]])


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("lora", [None, Lora(rank=4, alpha=6)])
def test_a_plain_model_with_the_merged_weights_is_the_same_model(tied: bool, lora: Lora | None) -> None:
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


def test_the_base_alone_is_the_model_with_its_adapter_off() -> None:
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
def test_what_is_shipped_to_engines_is_what_they_would_have_rounded_it_to(dtype: torch.dtype) -> None:
    """An adapter of float32 beside a base of bfloat16 would make every merged matrix twice as large."""
    policy = tiny_policy(lora=Lora(rank=4))
    with torch.no_grad():
        for _, parameter in policy.trainable():
            parameter.add_(0.1)
        for name, parameter in policy.model.named_parameters():
            if "lora" not in name:
                parameter.data = parameter.to(dtype)
    wide, sent = dict(plain_tensors(policy.model)), dict(shipped(policy, dtype))
    assert {tensor.dtype for name, tensor in wide.items() if "proj" in name} == {torch.float32}
    assert {tensor.dtype for tensor in sent.values()} == {dtype}
    assert wide.keys() == sent.keys()
    assert all(torch.equal(tensor.to(dtype), sent[name]) for name, tensor in wide.items())
