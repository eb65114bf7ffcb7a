"""Adapters trained elsewhere: their reference policy, and their weights as exported to another engine."""

from __future__ import annotations

from typing import Any

import torch
from peft import LoraConfig, get_peft_model

from benchmarks.correctness.seam_checks import SeamCheck
from steelyard.errors import PolicyError
from steelyard.policies.adapters import TRAINED, adapter_tensors, plain_tensors
from steelyard.policies.base import Policy
from steelyard.policies.loading import PolicyOptions, from_scratch_policy
from steelyard.policies.reference import AdapterReference
from steelyard.policies.scratch import Architecture
from steelyard.types import SampleKey, Task

ITEM = "adapters"
SHAPE = Architecture(layers=2, width=64, heads=2, kv_heads=1, max_length=64)
WORDS = tuple(str(number) for number in range(13))
TEXT = " ".join(WORDS)


def _bare(seed: int = 0) -> Policy:
    return from_scratch_policy(SHAPE, WORDS, PolicyOptions(device="cpu", seed=seed))


def _adapted(**options: Any) -> Policy:
    """Build a policy with a PEFT adapter whose weights differ from their initial values."""
    policy = _bare()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = get_peft_model(policy.model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", **options))
        for parameter in adapter_tensors(model, TRAINED).values():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return policy.with_model(model)


def kl_to_an_identical_reference(_quick: bool) -> float:
    """Return the mean exact KL, in train mode, to an identical second adapter; the adapter was trained with dropout."""
    policy = _adapted(lora_dropout=0.2)
    reference = AdapterReference(policy)
    policy.train(True)
    sample = policy.sample_from_text(Task("t", "1"), TEXT, SampleKey(0, 0, 0, 0))
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        kl_N = policy.evaluate(policy.collate([sample]), reference).kl_N
    assert kl_N is not None
    return float(kl_N.mean())


def logits_of_merged_dora(_quick: bool) -> float:
    """Return the largest difference in logits between a DoRA policy and a plain model with its merged weights."""
    policy, plain = _adapted(use_dora=True), _bare(seed=1)
    plain.model.load_state_dict(dict(plain_tensors(policy.model)), strict=False)
    ids = torch.as_tensor(policy.encode(TEXT))[None]
    with torch.no_grad():
        return float((policy.model(ids).logits - plain.model(ids).logits).abs().max())


def unknown_names(_quick: bool) -> float:
    """Count the weights exported under names the plain model does not have; a rejected adapter exports none."""
    known = _bare().model.state_dict().keys()
    try:
        policy = _adapted(modules_to_save=["norm"])
    except PolicyError:
        return 0.0
    return float(len(dict(plain_tensors(policy.model)).keys() - known))


CHECKS = (
    SeamCheck(ITEM, "exact KL to an identical reference", 0.0168, kl_to_an_identical_reference, "<=", 1e-6, "nats"),
    SeamCheck(ITEM, "merged DoRA, largest difference in logits", 0.547, logits_of_merged_dora, "<=", 1e-4),
    SeamCheck(ITEM, "modules_to_save, weights exported under unknown names", 10.0, unknown_names, "<=", 0.0),
)
