"""The learner: the gradient it takes, old and reference log-probs, and what it does when numbers are not finite."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from steelyard.algorithms.kl import AdaptiveKL
from steelyard.algorithms.objective import Objective
from steelyard.algorithms.schedules import Schedule
from steelyard.algorithms.surrogates import surrogate
from steelyard.errors import TrainingError
from steelyard.policies.adapters import Lora
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.reference import CopyReference
from steelyard.training.learner_samples import LearnerSample, load_samples
from steelyard.types import CutRule
from tests.tiny import (
    KINDS,
    SHAPE,
    constant,
    gradients_of,
    rollout,
    sample_of,
    support_sets,
    tiny_learner,
    tiny_policy,
    weights_of,
    with_advantages,
)

SURROGATES = ("ppo_clip", "gspo", "cispo", "reinforce")
AGGREGATIONS = ("sequence_mean", "token_mean", "constant")
RULE = CutRule(0.8, 8, 0.95)
NOISE = {"causal": 1e-12, "masked": 1e-7}
"""Rounding in float64; ModernBERT turns its queries and keys in float32 whatever the weights are."""


def moved_away(items: Sequence[LearnerSample], seed: int = 1) -> list[LearnerSample]:
    """Old and reference log-probs some way from the current ones, so that ratios, clips and KL are all at work."""
    rng = np.random.default_rng(seed)

    def beside(logp_N: np.ndarray, spread: float) -> np.ndarray:
        return (logp_N + spread * rng.normal(size=len(logp_N))).astype(np.float32)

    return [
        replace(
            item,
            old_logp_N=beside(item.sample.decisions.logp_N, 0.2),
            reference_logp_N=beside(item.sample.decisions.logp_N, 0.5),
        )
        for item in items
    ]


def largest_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def cosine(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    flat = [torch.cat([tensors[name].double().flatten() for name in one]) for tensors in (one, other)]
    return float(torch.nn.functional.cosine_similarity(*flat, dim=0))


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
    """GRPO written out sample by sample on full logits: clipped surrogate, k3, entropy, mean of means."""
    total = torch.zeros((), dtype=torch.float64)
    for item in items:
        sample, rule = item.sample, item.sample.decisions.rule
        ids = torch.tensor(sample.token_ids, dtype=torch.int64)[None]
        logits_TV = policy.model(input_ids=ids).logits[0] / rule.temperature
        for place, position in enumerate(sample.decisions.position_N.tolist()):
            allowed = torch.tensor(support_sets(sample)[place])
            logp_S = logits_TV[position - 1, allowed].log_softmax(0)
            logp = logp_S[(allowed == ids[0, position]).nonzero()[0, 0]]
            assert item.old_logp_N is not None
            assert item.reference_logp_N is not None
            ratio, advantage = (logp - float(item.old_logp_N[place])).exp(), float(item.advantage_N[place])
            clipped = ratio.clamp(0.8, 1.3)
            delta = logp - float(item.reference_logp_N[place])
            loss = -torch.minimum(ratio * advantage, clipped * advantage)
            loss = loss + kl * ((-delta).exp() + delta - 1) + entropy * (logp_S.exp() * logp_S).sum()
            total = total + loss / (len(sample.decisions) * len(items))
    names, parameters = zip(*policy.trainable(), strict=True)
    return dict(zip(names, torch.autograd.grad(total, parameters), strict=True))


def test_the_gradient_is_that_of_the_algorithm_written_out() -> None:
    policy = tiny_policy(dtype="float64")
    items = moved_away(with_advantages(rollout(policy, count=2, rule=RULE, length=6)))
    objective = Objective(surrogate("ppo_clip", clip_low=0.2, clip_high=0.3), "k3")
    learner = tiny_learner(policy, objective=objective, kl=0.3, entropy=0.05, microbatch_tokens=30, grad_clip=None)
    found, expected = gradients_of(learner, items), plain_gradient(policy, items, 0.3, 0.05)
    scale = max(float(gradient.abs().max()) for gradient in expected.values())
    assert largest_difference(found, expected) < 1e-6 * scale  # weights of decisions are float32


def test_samples_without_decisions_are_in_no_denominator() -> None:
    policy = tiny_policy(dtype="float64")
    items = with_advantages(rollout(policy, count=2))
    idle = LearnerSample(sample_of([1, 2, 3], decided=[]), np.zeros(0, np.float32))
    alone, beside = (gradients_of(tiny_learner(policy), batch) for batch in (items, [idle, *items, idle]))
    assert largest_difference(alone, beside) == 0


def test_nothing_to_learn_from_is_no_step() -> None:
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
    assert runs == [1, 2], "layers run again in the backward pass"
    assert largest_difference(*gradients) < 1e-7


def test_gradients_from_before_are_not_taken_along() -> None:
    """A policy that is handed over may carry gradients of its own."""
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
    """Ratio exactly 1, nothing clipped, and the gradient of plain policy gradient, whatever the surrogate."""
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
    """2 epochs of 3 minibatches: old is recomputed once, the first update has ratio 1 and the later ones have not."""
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
def test_the_importance_correction_weighs_the_loss(shift: float, weight: float) -> None:
    """A sampler that gave each token exp(shift) times the learner's probability; the cap is 2.

    With a single update the learner's own log-probs are at hand in the update, and nothing is scored before.
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


def test_scores_come_back_in_the_order_of_the_samples() -> None:
    """They are computed longest first and in batches; samples without decisions get an empty array."""
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
    """Nothing is scored beforehand; at the start KL is 0, and after the policy has moved it is not."""
    policy = tiny_policy()
    reference = CopyReference(policy)
    learner = tiny_learner(policy, reference=reference, objective=Objective(surrogate("ppo_clip"), "exact"), kl=0.1)
    samples = rollout(policy, count=3)
    assert learner.score(samples).reference is None
    items = with_advantages(samples)
    assert learner.update(items, 0)["kl"] == pytest.approx(0.0, abs=1e-6)
    assert learner.update(items, 1)["kl"] > 1e-3


def test_a_kl_term_pulls_back_to_the_reference() -> None:
    """No advantages, only KL: the policy returns to where the reference is."""
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


# --- not finite ------------------------------------------------------------------------------------------------------


def poisoned(items: Sequence[LearnerSample]) -> list[LearnerSample]:
    return [replace(items[0], advantage_N=np.full_like(items[0].advantage_N, np.nan)), *items[1:]]


def test_a_loss_that_is_not_finite_is_skipped_counted_and_saved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = tiny_policy()
    learner = tiny_learner(policy, quarantine=tmp_path)
    items = with_advantages(rollout(policy, count=2, rule=RULE))
    before = weights_of(policy)
    with caplog.at_level(logging.WARNING):
        metrics = learner.update(poisoned(items), 17)
    assert largest_difference(before, weights_of(policy)) == 0
    assert (metrics["skipped"], learner.skipped, learner.skipped_in_row) == (1, 1, 1)
    assert math.isnan(metrics["loss"])
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("nonfinite-00000017")
    assert str(folder) in caplog.text
    loaded = load_samples(folder)
    assert [item.advantage_N.tobytes() for item in loaded] == [item.advantage_N.tobytes() for item in poisoned(items)]
    again = tiny_learner(policy, quarantine=tmp_path / "again")
    assert math.isnan(again.update(loaded, 17)["loss"]), "the saved batch shows the fault again"
    assert learner.update(items, 18)["skipped"] == 0
    assert (learner.skipped, learner.skipped_in_row) == (1, 0)
    assert largest_difference(before, weights_of(policy)) > 0


def test_every_minibatch_that_fails_is_kept(tmp_path: Path) -> None:
    policy = tiny_policy()
    learner = tiny_learner(policy, quarantine=tmp_path, minibatches=2)
    items = [replace(i, advantage_N=np.nan * i.advantage_N) for i in with_advantages(rollout(policy, count=2))]
    items = [replace(item, old_logp_N=item.sample.decisions.logp_N) for item in items]
    assert learner.update(items, 0)["skipped"] == 2
    saved = [load_samples(folder) for folder in sorted(tmp_path.iterdir())]
    keys = [tuple(item.sample.key) for batch in saved for item in batch]
    assert sorted(keys) == sorted(tuple(item.sample.key) for item in items)


def test_a_gradient_that_is_not_finite_is_skipped_too(tmp_path: Path) -> None:
    policy = tiny_policy()
    learner, items = tiny_learner(policy, quarantine=tmp_path), with_advantages(rollout(policy, count=2))
    name, parameter = next(iter(policy.trainable()))
    handle = parameter.register_hook(lambda gradient: gradient * math.inf)
    before = weights_of(policy)
    metrics = learner.update(items, 0)
    assert metrics["skipped"] == 1
    assert math.isfinite(metrics["loss"])
    assert not math.isfinite(metrics["gradient/norm"])
    assert largest_difference(before, weights_of(policy)) == 0, name
    handle.remove()
    assert learner.update(items, 1)["skipped"] == 0


def test_too_many_in_a_row_stop_the_run_with_a_way_out(tmp_path: Path) -> None:
    policy = tiny_policy()
    learner = tiny_learner(policy, quarantine=tmp_path, max_skipped=3)
    items = with_advantages(rollout(policy, count=2))
    learner.update(poisoned(items), 0)
    learner.update(poisoned(items), 1)
    learner.update(items, 2)
    learner.update(poisoned(items), 3)
    learner.update(poisoned(items), 4)
    with pytest.raises(TrainingError, match=r"(?s)3 updates in a row.*loss nan.*Lower optimiser\.lr") as caught:
        learner.update(poisoned(items), 5)
    assert str(tmp_path) in str(caught.value)


# --- the optimiser ---------------------------------------------------------------------------------------------------


def test_gradients_are_clipped_and_the_norm_before_it_reported() -> None:
    policy = tiny_policy()
    items = with_advantages(rollout(policy))
    free = gradients_of(tiny_learner(policy, grad_clip=None), items)
    norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in free.values()))
    clipped = gradients_of(tiny_learner(policy, grad_clip=norm / 4), items)
    for name, gradient in free.items():
        torch.testing.assert_close(clipped[name], gradient / 4, rtol=1e-4, atol=1e-8)
    assert tiny_learner(policy, grad_clip=norm / 4).update(items, 0)["gradient/norm"] == pytest.approx(norm, rel=1e-5)


def test_the_learning_rate_follows_its_schedule() -> None:
    """Linear from 1 to 0 over 10 steps after 2 of warm-up: 1/3, 2/3, then 1 - (t - 2) / 8."""
    policy = tiny_policy()
    learner = tiny_learner(policy, lr=Schedule("linear", 0.1, 0.0, 10, 2))
    items = with_advantages(rollout(policy, count=2))
    used = []
    for step in (0, 1, 2, 6, 10):
        before = weights_of(policy)
        assert learner.update(items, step)["lr"] == learner.optimiser.param_groups[0]["lr"]
        used.append(learner.optimiser.param_groups[0]["lr"])
        moved = largest_difference(before, weights_of(policy)) > 0
        assert moved is (step != 10)
    assert used == pytest.approx([0.1 / 3, 0.2 / 3, 0.1, 0.05, 0.0])


def test_scheduled_coefficients_are_taken_at_the_step() -> None:
    policy = tiny_policy()
    learner = tiny_learner(policy, kl=Schedule("linear", 1.0, 0.0, 10))
    assert [learner.kl_coefficient(step) for step in (0, 5, 20)] == [1.0, 0.5, 0.0]
    assert learner.update([], 5)["kl/coefficient"] == 0.5


def test_the_adaptive_coefficient_follows_the_measured_kl() -> None:
    """KL far above the target: the coefficient grows by 0.2 x samples / horizon; far below it falls alike."""
    policy = tiny_policy()
    items = moved_away(with_advantages(rollout(policy, count=4)))
    objective = Objective(surrogate("ppo_clip"), "k3")
    for target, sign in ((1e-6, 1), (1e6, -1)):
        learner = tiny_learner(policy, objective=objective, kl=0.5, lr=0.0, adaptive=AdaptiveKL(target, 100))
        metrics = learner.update(items, 0)
        assert metrics["kl/coefficient"] == 0.5
        assert learner.kl_coefficient(1) == pytest.approx(0.5 * (1 + sign * 0.2 * 12 / 100))
        other = tiny_learner(policy, objective=objective, kl=0.5, adaptive=AdaptiveKL(target, 100))
        other.load_state_dict(learner.state_dict())
        assert other.kl_coefficient(1) == learner.kl_coefficient(1)


def test_the_adaptive_coefficient_near_its_target_moves_in_proportion() -> None:
    policy = tiny_policy()
    items = moved_away(with_advantages(rollout(policy, count=4)))
    objective = Objective(surrogate("ppo_clip"), "k3")
    kl = tiny_learner(policy, objective=objective, kl=0.5, lr=0.0).update(items, 0)["kl"]
    learner = tiny_learner(policy, objective=objective, kl=0.5, lr=0.0, adaptive=AdaptiveKL(kl / 1.1, 100))
    learner.update(items, 0)
    assert learner.kl_coefficient(1) == pytest.approx(0.5 * (1 + 0.1 * 12 / 100), rel=1e-6)


@pytest.mark.parametrize("optimiser", ["adamw", "adamw_fused", "adamw_8bit"])
def test_every_optimiser_steps_the_same_way(optimiser: str) -> None:
    """The first step of Adam is lr x sign of the gradient, whatever holds its state."""
    pytest.importorskip("bitsandbytes")
    policy = tiny_policy(shape=replace(SHAPE, width=64))  # its larger matrices pass the 4096 elements of 8-bit state
    items = with_advantages(rollout(policy, count=2))
    learner = tiny_learner(policy, optimiser=optimiser, lr=1e-3)
    before = weights_of(policy)
    gradients = gradients_of(tiny_learner(policy), items)
    learner.update(items, 0)
    after = weights_of(policy)
    for name, gradient in gradients.items():
        strong = gradient.abs() > 1e-5
        assert (torch.sign(before[name] - after[name])[strong] == torch.sign(gradient)[strong]).all()
    if optimiser == "adamw_8bit":
        states = [state["state1"].dtype for state in learner.optimiser.state.values()]
        assert torch.uint8 in states
    for step in range(1, 4):
        assert learner.update(items, step)["skipped"] == 0


# --- number formats --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"dtype": "bfloat16"}, {"autocast": "bfloat16"}, {"autocast": "float16"}], ids=str)
def test_other_number_formats_find_nearly_the_same_gradient(options: dict[str, Any]) -> None:
    exact = tiny_policy()
    items = with_advantages(rollout(exact, count=4))
    wanted = gradients_of(tiny_learner(exact), items)
    policy = tiny_policy(**options)
    learner = tiny_learner(policy)
    before = weights_of(policy)
    metrics = learner.update(items, 0)
    while metrics["skipped"]:  # the loss scale is being found
        metrics = learner.update(items, 0)
    assert math.isfinite(metrics["loss"])
    assert largest_difference(before, weights_of(policy)) > 0
    kept = {"bfloat16": torch.bfloat16}.get(options.get("dtype", ""), torch.float32)
    assert {weight.dtype for weight in weights_of(policy).values()} == {kept}
    fresh = tiny_policy(**options)
    other = tiny_learner(fresh)
    other.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, enabled="float16" in options.values())
    assert cosine(gradients_of(other, items), wanted) > 0.97


def test_lora_over_float16_weights_has_its_loss_scaled() -> None:
    exact, half = tiny_policy(lora=Lora(4, 8)), tiny_policy(lora=Lora(4, 8), dtype="float16")
    items = with_advantages(rollout(exact, count=4))
    learner = tiny_learner(half)
    assert learner.scaler.is_enabled()
    learner.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    assert cosine(gradients_of(learner, items), gradients_of(tiny_learner(exact), items)) > 0.97
    assert not tiny_learner(tiny_policy(dtype="bfloat16")).scaler.is_enabled()


def test_float16_finds_its_loss_scale_without_blaming_the_batch(tmp_path: Path) -> None:
    """A scale that overflows is halved and the step skipped, but nothing is quarantined and the run goes on."""
    policy = tiny_policy(autocast="float16")
    learner = tiny_learner(policy, quarantine=tmp_path, max_skipped=1)
    learner.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    items = with_advantages(rollout(policy, count=2))
    before, skipped = weights_of(policy), 0
    for step in range(60):
        skipped += int(learner.update(items, step)["skipped"])
        if largest_difference(before, weights_of(policy)) > 0:
            break
    assert 0 < skipped < 59
    assert learner.skipped == skipped
    assert learner.scaler.get_scale() == 2.0 ** (40 - skipped)
    assert list(tmp_path.iterdir()) == []


def test_float16_blames_a_batch_that_is_really_not_finite(tmp_path: Path) -> None:
    policy = tiny_policy(autocast="float16")
    learner = tiny_learner(policy, quarantine=tmp_path, max_skipped=1)
    with pytest.raises(TrainingError, match="1 updates in a row"):
        learner.update(poisoned(with_advantages(rollout(policy, count=2))), 0)
    assert len(list(tmp_path.iterdir())) == 1


def test_the_loss_scale_is_part_of_the_state() -> None:
    policy = tiny_policy(autocast="float16")
    learner = tiny_learner(policy)
    learner.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    learner.update(with_advantages(rollout(policy, count=2)), 0)
    other = tiny_learner(policy)
    other.load_state_dict(learner.state_dict())
    assert other.scaler.get_scale() == learner.scaler.get_scale() == 2.0**12
    assert other.scaler.state_dict() == learner.scaler.state_dict()


def test_coefficients_of_a_constant() -> None:
    assert constant(0.3).value(1000) == 0.3
