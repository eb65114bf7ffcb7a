"""Reference policies: scores, renewal and checkpoint state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from steelyard.errors import CheckpointError, PolicyError
from steelyard.policies.adapters import Lora, adapter_tensors
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.reference import (
    AdapterOffReference,
    AdapterReference,
    CopyReference,
    Ema,
    Periodic,
    Renewal,
    build_reference,
    static,
)
from steelyard.types import CutRule
from tests.tiny import KINDS, rollout, tiny_learner, tiny_policy, weights_of, with_advantages

LORA = Lora(4, 8)
STORAGES = ("copy", "copy-lora", "adapter_off", "adapter")
RENEWED = ("copy", "copy-lora", "adapter")


def reference_of(storage: str, renewal: Renewal = static, **options: Any) -> Any:
    """A reference and its policy; for the second adapter the policy starts from a trained adapter."""
    if storage == "copy":
        return CopyReference(tiny_policy(**options), renewal)
    if storage == "copy-lora":
        return CopyReference(tiny_policy(lora=LORA, **options), renewal)
    if storage == "adapter_off":
        return AdapterOffReference(tiny_policy(lora=LORA, **options))
    return AdapterReference(trained_adapter(**options), renewal)


def trained_adapter(**options: Any) -> CausalPolicy:
    policy = tiny_policy(lora=LORA, **options)
    with torch.no_grad():
        for name, parameter in policy.trainable():
            if "lora_B" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(0))
    return policy


def learn(policy: CausalPolicy, steps: int = 1, *, seed: int = 0, **options: Any) -> None:
    learner = tiny_learner(policy, **options)
    for step in range(steps):
        learner.update(with_advantages(rollout(policy, count=2, step=step), seed=seed), step)


def copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def largest_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name].double() - other[name].double()).abs().max()) for name in one)


# --- static ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("rule", [CutRule(), CutRule(0.7, 6, 0.9)], ids=str)
def test_a_static_reference_scores_like_the_initial_policy(kind: str, storage: str, rule: CutRule) -> None:
    """The reference still scores like the initial policy after an update, on the supports of the samples."""
    reference = reference_of(storage, kind=kind)
    policy = reference.policy
    batch = policy.collate(rollout(policy, rule=rule))
    start_N = policy.evaluate(batch).logp_N.detach()
    torch.testing.assert_close(reference.logp(batch), start_N, rtol=0, atol=1e-6)
    learn(policy, 2)
    reference.after_step(1)
    assert (policy.evaluate(batch).logp_N - start_N).abs().max() > 1e-2
    torch.testing.assert_close(reference.logp(batch), start_N, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("storage", STORAGES)
def test_scoring_with_the_reference_does_not_change_the_policy(kind: str, storage: str) -> None:
    reference = reference_of(storage, kind=kind)
    policy = reference.policy
    batch = policy.collate(rollout(policy))
    learn(policy)
    before, trained = policy.evaluate(batch).logp_N.detach(), [name for name, _ in policy.trainable()]
    assert not reference.logp(batch).requires_grad
    reference.distribution(batch)
    assert [name for name, _ in policy.trainable()] == trained
    assert torch.equal(policy.evaluate(batch).logp_N.detach(), before)


@pytest.mark.parametrize("storage", STORAGES)
def test_exact_kl_and_its_gradient(storage: str) -> None:
    """The values are compared with full distributions; the backward pass calls the reference's head again."""
    reference = reference_of(storage)
    policy: CausalPolicy = reference.policy
    batch = policy.collate(rollout(policy, count=2))
    sampled_S = torch.tensor([token for token in range(policy.vocabulary) if token not in policy.excluded])

    def logits_of_sampled() -> torch.Tensor:
        return policy.model(input_ids=batch.input_ids).logits[batch.row_N, batch.column_N][:, sampled_S]

    reference_logits_NS = logits_of_sampled().detach()
    learn(policy, 2)
    policy.chunk = 7
    scores = policy.evaluate(batch, reference)
    assert scores.kl_N is not None
    logp_NS = logits_of_sampled().log_softmax(-1)
    kl_N = (logp_NS.exp() * (logp_NS - reference_logits_NS.log_softmax(-1))).sum(-1)
    assert kl_N.max() > 1e-2
    torch.testing.assert_close(scores.kl_N, kl_N, rtol=1e-4, atol=1e-5)
    trained = [parameter for _, parameter in policy.trainable()]
    for found, expected in zip(
        torch.autograd.grad(scores.kl_N.sum(), trained), torch.autograd.grad(kl_N.sum(), trained), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("storage", STORAGES)
def test_only_the_policys_own_weights_are_trained(kind: str, storage: str) -> None:
    reference = reference_of(storage, kind=kind)
    policy = reference.policy
    before = weights_of(policy)
    learn(policy, reference=reference)
    after, trained = weights_of(policy), {name for name, _ in policy.trainable()}
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed <= trained
    assert changed
    assert not any(".reference." in name for name in trained)


def test_a_static_reference_saves_no_tensors() -> None:
    for storage in STORAGES:
        assert reference_of(storage).tensors() == {}


@pytest.mark.parametrize("storage", STORAGES)
def test_the_fingerprint_depends_on_the_initial_weights(storage: str) -> None:
    first, second = reference_of(storage), reference_of(storage)
    assert first.fingerprint() == second.fingerprint()
    learn(first.policy)
    assert first.fingerprint() == second.fingerprint(), "training does not change the reference"
    with torch.no_grad():
        next(iter(second.weights().values())).view(-1)[3] += 1.0
    assert first.fingerprint() != second.fingerprint()


# --- renewed ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", RENEWED)
def test_ema_follows_its_formula(storage: str) -> None:
    """phi <- d phi + (1 - d) theta after every step."""
    reference = reference_of(storage, Ema(0.75))
    policy: CausalPolicy = reference.policy
    expected = copies(reference.weights())
    for step in range(1, 4):
        learn(policy, seed=step)
        reference.after_step(step)
        theta = reference.policy_weights()
        expected = {name: 0.75 * phi + 0.25 * theta[name].detach() for name, phi in expected.items()}
        assert largest_difference(reference.weights(), expected) < 1e-6
    assert largest_difference(reference.weights(), copies(reference.policy_weights())) > 1e-3


def test_ema_of_bfloat16_weights_does_not_stall() -> None:
    """At decay 0.999 one update is smaller than bfloat16 rounding, so the average must be float32."""
    policy = tiny_policy(dtype="bfloat16")
    reference = CopyReference(policy, Ema(0.999))
    start = copies(reference.weights())
    with torch.no_grad():
        for _, parameter in policy.trainable():
            parameter.mul_(1.25)
    for step in range(1, 201):
        reference.after_step(step)
    share = 1 - 0.999**200
    name = "model.embed_tokens.weight"
    moved = (reference.weights()[name] - start[name]).float()
    wanted = (share * 0.25 * start[name]).float()
    assert float((moved - wanted).abs().mean() / wanted.abs().mean()) < 0.1


@pytest.mark.parametrize("storage", RENEWED)
def test_a_periodic_reference_is_renewed_at_its_steps(storage: str) -> None:
    reference = reference_of(storage, Periodic(3))
    policy: CausalPolicy = reference.policy
    held = copies(reference.weights())
    for step in range(1, 8):
        learn(policy, seed=step)
        reference.after_step(step)
        if step % 3 == 0:
            held = copies(reference.policy_weights())
        assert largest_difference(reference.weights(), held) == 0, step
    assert largest_difference(held, copies(reference.policy_weights())) > 1e-3


@pytest.mark.parametrize("storage", RENEWED)
@pytest.mark.parametrize("renewal", [lambda: Ema(0.9), lambda: Periodic(2)], ids=["ema", "periodic"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_renewed_reference_resumes_from_its_checkpoint(
    storage: str, renewal: Callable[[], Renewal], dtype: str
) -> None:
    """State saved after 3 steps is loaded into a new run: both score the same then and after further renewals."""
    first, second = (reference_of(storage, renewal(), dtype=dtype) for _ in range(2))
    for step in range(1, 4):
        learn(first.policy, seed=step)
        first.after_step(step)
    saved = copies(first.tensors())
    second.load_tensors(saved)
    with torch.no_grad():
        for name, parameter in second.policy.model.named_parameters():
            if ".reference." not in name:
                parameter.copy_(dict(first.policy.model.named_parameters())[name])
    for step in (4, 5):
        assert largest_difference(first.weights(), second.weights()) == 0
        first.after_step(step)
        second.after_step(step)
    assert largest_difference(first.weights(), second.weights()) == 0
    assert largest_difference(copies(first.tensors()), copies(second.tensors())) == 0


def test_the_reference_of_another_kind_is_rejected() -> None:
    saved = reference_of("copy", Ema(0.9)).tensors()
    with pytest.raises(CheckpointError, match="different kind of reference"):
        reference_of("copy").load_tensors(saved)
    with pytest.raises(CheckpointError, match="different kind of reference"):
        reference_of("adapter", Periodic(2)).load_tensors(saved)


# --- carriers --------------------------------------------------------------------------------------------------------


def test_adapter_off_is_the_base_model_without_a_second_one() -> None:
    policy, base = tiny_policy(lora=LORA), tiny_policy()
    reference = AdapterOffReference(policy)
    parameters = sum(p.numel() for p in policy.model.parameters())
    learn(policy, 3)
    batch = policy.collate(rollout(policy))
    torch.testing.assert_close(reference.logp(batch), base.evaluate(batch).logp_N.detach(), rtol=0, atol=1e-6)
    assert (policy.evaluate(batch).logp_N - reference.logp(batch)).abs().max() > 1e-2
    assert sum(p.numel() for p in policy.model.parameters()) == parameters


def test_a_second_adapter_does_not_add_a_model() -> None:
    policy = trained_adapter()
    own = sum(p.numel() for p in adapter_tensors(policy.model, "default").values())
    before = sum(p.numel() for p in policy.model.parameters())
    AdapterReference(policy)
    assert sum(p.numel() for p in policy.model.parameters()) == before + own


def test_build_reference_knows_its_carriers() -> None:
    policy = tiny_policy(lora=LORA)
    assert isinstance(build_reference(policy, "copy", Ema(0.9), torch.device("cpu")), CopyReference)
    assert isinstance(build_reference(policy, "adapter_off", Ema(0.9)), AdapterOffReference)
    assert isinstance(build_reference(policy, "adapter", Ema(0.9)), AdapterReference)
    with pytest.raises(PolicyError, match=r"storage = 'adapter_of'.*choose copy, adapter_off or adapter"):
        build_reference(policy, "adapter_of", Ema(0.9))
    with pytest.raises(PolicyError, match='storage = "copy"'):
        build_reference(policy, "adapter", Ema(0.9), torch.device("meta"))


def test_a_copy_kept_on_the_cpu_scores_batches_of_the_policys_device() -> None:
    """Policy and copy are both on the CPU here; the test shows that the batch is moved to the copy's device."""
    policy = tiny_policy()
    reference = CopyReference(policy, device=torch.device("cpu"))
    batch = policy.collate(rollout(policy))
    hidden_ND, head = reference.distribution(batch)
    assert hidden_ND.device.type == "cpu"
    assert head(hidden_ND[:2]).device == policy.device
    np.testing.assert_allclose(reference.logp(batch), policy.evaluate(batch).logp_N.detach(), atol=1e-6)
