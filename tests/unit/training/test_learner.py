"""The learner: its gradient, and old and reference log-probs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from steelyard.algorithms.objective import Objective
from steelyard.algorithms.surrogates import surrogate
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.reference import CopyReference
from steelyard.training.learner_samples import LearnerSample
from steelyard.types import CutRule
from tests.tiny import (
    KINDS,
    gradients_of,
    rollout,
    sample_of,
    support_sets,
    tiny_learner,
    tiny_policy,
    weights_of,
    with_advantages,
)
from tests.unit.training.gradients import largest_difference, moved_away

SURROGATES = ("ppo_clip", "gspo", "cispo", "reinforce")
AGGREGATIONS = ("sequence_mean", "token_mean", "constant")
RULE = CutRule(0.8, 8, 0.95)
NOISE = {"causal": 1e-12, "masked": 1e-7}
"""Rounding error in float64; ModernBERT rotates queries and keys in float32 whatever the dtype of the weights."""


# --- the gradient ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "aggregation"), list(itertools.product(SURROGATES, AGGREGATIONS)))
def test_the_gradient_does_not_depend_on_microbatches(kind: str, name: str, aggregation: str) -> None:
    policy = tiny_policy(dtype="float64", kind=kind)
    items = moved_away(with_advantages(rollout(policy, count=3, rule=RULE)))
    objective = Objective(surrogate(name), "k3_unbiased", 2.0)
    found = [
        gradients_of(
            tiny_learner(
                policy,
                objective=objective,
                kl=0.1,
                entropy=0.01,
                microbatch_tokens=tokens,
                aggregation=aggregation,
                constant_length=12,
            ),
            items,
        )
        for tokens in (10**6, 1, 20, 60)
    ]
    scale = max(float(gradient.abs().max()) for gradient in found[0].values())
    assert scale > 1e-3
    for gradients in found[1:]:
        assert largest_difference(found[0], gradients) < NOISE[kind] * max(scale, 1.0)


def test_float32_microbatches_agree_to_rounding() -> None:
    policy = tiny_policy()
    items = moved_away(with_advantages(rollout(policy, count=3)))
    one, many = (gradients_of(tiny_learner(policy, microbatch_tokens=tokens), items) for tokens in (10**6, 20))
    assert largest_difference(one, many) < 1e-6


def test_metrics_do_not_depend_on_microbatches() -> None:
    policy = tiny_policy(dtype="float64")
    items = moved_away(with_advantages(rollout(policy, count=3, rule=RULE)))
    objective = Objective(surrogate("ppo_clip"), "k3", 2.0)
    found = [
        tiny_learner(policy, objective=objective, kl=0.1, lr=0.0, microbatch_tokens=tokens).update(items, 0)
        for tokens in (10**6, 20)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-5, abs=1e-6)
    assert found[0]["clip/share"] > 0
    assert found[0]["kl"] > 0


def plain_gradient(
    policy: CausalPolicy, items: Sequence[LearnerSample], kl: float, entropy: float
) -> dict[str, Tensor]:
    """Compute the GRPO gradient sample by sample from full logits: clipped surrogate, k3, entropy, mean of means."""
    total = torch.zeros((), dtype=torch.float64)
    for item in items:
        sample, rule = item.sample, item.sample.decisions.rule
        ids = torch.tensor(sample.token_ids, dtype=torch.int64)[None]
        logits_TV = policy.model(input_ids=ids).logits[0] / rule.temperature
        for index, position in enumerate(sample.decisions.position_N.tolist()):
            allowed = torch.tensor(support_sets(sample)[index])
            logp_S = logits_TV[position - 1, allowed].log_softmax(0)
            logp = logp_S[(allowed == ids[0, position]).nonzero()[0, 0]]
            assert item.old_logp_N is not None
            assert item.reference_logp_N is not None
            ratio, advantage = (logp - float(item.old_logp_N[index])).exp(), float(item.advantage_N[index])
            clipped = ratio.clamp(0.8, 1.3)
            delta = logp - float(item.reference_logp_N[index])
            loss = -torch.minimum(ratio * advantage, clipped * advantage)
            loss = loss + kl * ((-delta).exp() + delta - 1) + entropy * (logp_S.exp() * logp_S).sum()
            total = total + loss / (len(sample.decisions) * len(items))
    names, parameters = zip(*policy.trainable(), strict=True)
    return dict(zip(names, torch.autograd.grad(total, parameters), strict=True))


def test_the_gradient_equals_a_plain_implementation() -> None:
    policy = tiny_policy(dtype="float64")
    items = moved_away(with_advantages(rollout(policy, count=2, rule=RULE, length=6)))
    objective = Objective(surrogate("ppo_clip", clip_low=0.2, clip_high=0.3), "k3")
    learner = tiny_learner(policy, objective=objective, kl=0.3, entropy=0.05, microbatch_tokens=30, grad_clip=None)
    found, expected = gradients_of(learner, items), plain_gradient(policy, items, 0.3, 0.05)
    scale = max(float(gradient.abs().max()) for gradient in expected.values())
    assert largest_difference(found, expected) < 1e-6 * scale  # the decision weights are float32


def test_samples_without_decisions_do_not_count_in_denominators() -> None:
    policy = tiny_policy(dtype="float64")
    items = with_advantages(rollout(policy, count=2))
    idle = LearnerSample(sample_of([1, 2, 3], decided=[]), np.zeros(0, np.float32))
    alone, mixed = (gradients_of(tiny_learner(policy), batch) for batch in (items, [idle, *items, idle]))
    assert largest_difference(alone, mixed) == 0


def test_an_empty_batch_takes_no_step() -> None:
    policy = tiny_policy()
    before = weights_of(policy)
    learner = tiny_learner(policy)
    assert learner.update([], 0)["skipped"] == 0
    assert learner.update([LearnerSample(sample_of([1, 2], decided=[]), np.zeros(0, np.float32))], 0)["lr"] == 1e-2
    assert largest_difference(before, weights_of(policy)) == 0


def test_gradient_checkpointing_gives_equal_gradients() -> None:
    gradients, runs = [], []
    for checkpointing in (False, True):
        policy = tiny_policy(gradient_checkpointing=checkpointing)
        items = with_advantages(rollout(policy, count=2))
        count = [0]
        policy.model.model.layers[0].self_attn.q_proj.register_forward_hook(
            lambda *_, count=count: count.__setitem__(0, count[0] + 1)
        )
        gradients.append(gradients_of(tiny_learner(policy, microbatch_tokens=10**6), items))
        runs.append(count[0])
    assert runs == [1, 2], "checkpointing runs the layers again in the backward pass"
    assert largest_difference(*gradients) < 1e-7


def test_earlier_gradients_are_discarded() -> None:
    """The policy may still have gradients when the learner receives it."""
    policy = tiny_policy(dtype="float64")
    items = with_advantages(rollout(policy, count=2))
    clean = gradients_of(tiny_learner(policy), items)
    for _, parameter in policy.trainable():
        parameter.grad = torch.ones_like(parameter)
    assert largest_difference(clean, gradients_of(tiny_learner(policy), items)) == 0


def test_no_gradient_is_kept_after_the_step() -> None:
    policy = tiny_policy()
    tiny_learner(policy).update(with_advantages(rollout(policy, count=2)), 0)
    assert all(parameter.grad is None for parameter in policy.model.parameters())


# --- old and reference log-probs -------------------------------------------------------------------------------------


def test_with_a_single_update_old_is_the_current_policy() -> None:
    """The ratio is exactly 1, nothing is clipped, and every surrogate has the gradient of REINFORCE."""
    policy = tiny_policy(dtype="float64")
    items = with_advantages(rollout(policy, count=3))
    assert tiny_learner(policy).score([item.sample for item in items]).old is None
    found = {
        name: gradients_of(tiny_learner(policy, objective=Objective(surrogate(name))), items) for name in SURROGATES
    }
    for name in SURROGATES:
        assert largest_difference(found[name], found["reinforce"]) < 1e-14
    metrics = tiny_learner(policy).update(items, 0)
    assert metrics["ratio/log_abs_max"] == 0
    assert metrics["clip/share"] == 0


def test_several_updates_measure_the_ratio_against_the_policy_before_them() -> None:
    """With 2 epochs of 3 minibatches, old is computed once; only the first update has ratio 1."""
    policy = tiny_policy()
    learner = tiny_learner(policy, epochs=2, minibatches=3, microbatch_tokens=20)
    samples = rollout(policy, count=3)
    scored = learner.score(samples)
    assert scored.old is not None
    expected = policy.evaluate(policy.collate(samples)).logp_N.detach().numpy()
    np.testing.assert_allclose(np.concatenate(scored.old), expected, atol=1e-5)

    items = [replace(i, old_logp_N=old) for i, old in zip(with_advantages(samples), scored.old, strict=True)]
    seen: list[tuple[set[tuple[int, ...]], float]] = []
    minibatch = learner._minibatch

    def watch(part: Sequence[LearnerSample], step: int, advance: Callable[[int], None]) -> dict[str, float]:
        metrics = minibatch(part, step, advance)
        seen.append(({tuple(item.sample.key) for item in part}, metrics["log_ratio_max"]))
        return metrics

    learner._minibatch = watch  # type: ignore[method-assign]
    metrics = learner.update(items, 0)
    everything = {tuple(sample.key) for sample in samples}
    assert len(seen) == 6
    assert set().union(*(keys for keys, _ in seen[:3])) == everything
    assert set().union(*(keys for keys, _ in seen[3:])) == everything
    assert seen[0][1] < 1e-5
    assert min(ratio for _, ratio in seen[1:]) > 1e-3
    assert metrics["ratio/log_abs_max"] == max(ratio for _, ratio in seen)


@pytest.mark.parametrize(("shift", "weight"), [(math.log(2), 0.5), (-math.log(1.5), 1.5), (-math.log(8), 2.0)])
def test_the_importance_correction_scales_the_loss(shift: float, weight: float) -> None:
    """The sampler gave each token exp(shift) times the learner's probability; the cap is 2.

    With a single update, the update computes the learner's log-probs itself and needs no scoring beforehand.
    """
    policy = tiny_policy(dtype="float64")
    samples = rollout(policy, count=2)
    items = with_advantages(samples)
    plain = gradients_of(tiny_learner(policy, grad_clip=None), items)
    for sample in samples:
        sample.decisions.logp_N[:] += shift
    learner = tiny_learner(policy, objective=Objective(surrogate("ppo_clip"), None, 2.0), grad_clip=None)
    assert learner.score(samples).old is None
    found = gradients_of(learner, items)
    for name, gradient in plain.items():
        torch.testing.assert_close(found[name], weight * gradient, rtol=1e-5, atol=1e-8)
    assert learner.update(items, 0)["importance/ratio_mean"] == pytest.approx(math.exp(-shift), rel=1e-4)


def test_kl_in_the_reward_needs_both_log_probs() -> None:
    policy = tiny_policy()
    learner = tiny_learner(policy, reference=CopyReference(policy), kl_in_reward=True, kl=0.1)
    samples = rollout(policy, count=2)
    scored = learner.score(samples)
    assert scored.old is not None
    assert scored.reference is not None
    for old_N, reference_N, sample in zip(scored.old, scored.reference, samples, strict=True):
        np.testing.assert_allclose(old_N, sample.decisions.logp_N, atol=1e-5)
        np.testing.assert_array_equal(old_N, reference_N)


def test_scores_are_in_the_order_of_the_samples() -> None:
    """Batches are processed longest first. Samples without decisions get an empty array."""
    policy = tiny_policy()
    learner = tiny_learner(policy, epochs=2, microbatch_tokens=20)
    samples = rollout(policy, count=3)
    samples.insert(1, sample_of([1, 2, 3], decided=[]))
    samples.insert(4, sample_of([1, 2], decided=[]))
    scored = learner.score(samples).old
    assert scored is not None
    for sample, old_N in zip(samples, scored, strict=True):
        np.testing.assert_allclose(old_N, sample.decisions.logp_N, atol=1e-5)


def test_exact_kl_in_the_loss() -> None:
    """Exact KL needs no scoring beforehand. It is 0 at the start and positive after an update."""
    policy = tiny_policy()
    reference = CopyReference(policy)
    learner = tiny_learner(policy, reference=reference, objective=Objective(surrogate("ppo_clip"), "exact"), kl=0.1)
    samples = rollout(policy, count=3)
    assert learner.score(samples).reference is None
    items = with_advantages(samples)
    assert learner.update(items, 0)["kl"] == pytest.approx(0.0, abs=1e-6)
    assert learner.update(items, 1)["kl"] > 1e-3


def test_a_kl_term_pulls_back_to_the_reference() -> None:
    """With zero advantages, the KL term moves the policy back to the reference."""
    policy = tiny_policy()
    reference, items = CopyReference(policy), with_advantages(rollout(policy, count=8))
    away = tiny_learner(policy, lr=1e-2)
    for step in range(3):
        away.update(items, step)
    learner = tiny_learner(
        policy, reference=reference, objective=Objective(surrogate("ppo_clip"), "exact"), kl=1.0, lr=3e-3
    )
    idle = [replace(item, advantage_N=np.zeros_like(item.advantage_N)) for item in items]
    first = learner.update(idle, 0)["kl"]
    for step in range(1, 10):
        last = learner.update(idle, step)["kl"]
    assert last < 0.3 * first


def test_an_entropy_bonus_raises_entropy() -> None:
    policy = tiny_policy()
    items = [replace(item, advantage_N=0 * item.advantage_N) for item in with_advantages(rollout(policy))]
    learner = tiny_learner(policy, entropy=1.0, lr=1e-3)
    found = [learner.update(items, step)["entropy"] for step in range(4)]
    assert found == sorted(found)
    assert found[-1] > found[0] + 0.01
