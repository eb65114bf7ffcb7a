"""The learner's updates: non-finite losses and gradients, optimisers, schedules and dtypes."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from steelyard.algorithms.kl import AdaptiveKL
from steelyard.algorithms.objective import Objective
from steelyard.algorithms.schedules import Schedule
from steelyard.algorithms.surrogates import surrogate
from steelyard.errors import TrainingError
from steelyard.policies.adapters import Lora
from steelyard.training.learner_samples import LearnerSample, load_samples
from steelyard.types import CutRule
from tests.tiny import (
    SHAPE,
    constant,
    gradients_of,
    rollout,
    tiny_learner,
    tiny_policy,
    weights_of,
    with_advantages,
)
from tests.unit.training.gradients import cosine, largest_difference, moved_away

RULE = CutRule(0.8, 8, 0.95)


# --- not finite ------------------------------------------------------------------------------------------------------


def poisoned(items: Sequence[LearnerSample]) -> list[LearnerSample]:
    return [replace(items[0], advantage_N=np.full_like(items[0].advantage_N, np.nan)), *items[1:]]


def test_a_non_finite_loss_is_skipped_counted_and_saved(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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
    assert math.isnan(again.update(loaded, 17)["loss"]), "the saved batch reproduces the fault"
    assert learner.update(items, 18)["skipped"] == 0
    assert (learner.skipped, learner.skipped_in_row) == (1, 0)
    assert largest_difference(before, weights_of(policy)) > 0


def test_every_non_finite_minibatch_is_saved(tmp_path: Path) -> None:
    policy = tiny_policy()
    learner = tiny_learner(policy, quarantine=tmp_path, minibatches=2)
    items = [replace(i, advantage_N=np.nan * i.advantage_N) for i in with_advantages(rollout(policy, count=2))]
    items = [replace(item, old_logp_N=item.sample.decisions.logp_N) for item in items]
    assert learner.update(items, 0)["skipped"] == 2
    saved = [load_samples(folder) for folder in sorted(tmp_path.iterdir())]
    keys = [tuple(item.sample.key) for batch in saved for item in batch]
    assert sorted(keys) == sorted(tuple(item.sample.key) for item in items)


def test_a_non_finite_gradient_is_skipped(tmp_path: Path) -> None:
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


def test_too_many_consecutive_skips_stop_the_run_with_a_suggestion(tmp_path: Path) -> None:
    policy = tiny_policy()
    learner = tiny_learner(policy, quarantine=tmp_path, max_skipped=3)
    items = with_advantages(rollout(policy, count=2))
    learner.update(poisoned(items), 0)
    learner.update(poisoned(items), 1)
    learner.update(items, 2)
    learner.update(poisoned(items), 3)
    learner.update(poisoned(items), 4)
    with pytest.raises(TrainingError, match=r"(?s)3 consecutive updates.*loss nan.*Lower optimiser\.lr") as caught:
        learner.update(poisoned(items), 5)
    assert str(tmp_path) in str(caught.value)


# --- the optimiser ---------------------------------------------------------------------------------------------------


def test_gradients_are_clipped_and_the_unclipped_norm_is_reported() -> None:
    policy = tiny_policy()
    items = with_advantages(rollout(policy))
    free = gradients_of(tiny_learner(policy, grad_clip=None), items)
    norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in free.values()))
    clipped = gradients_of(tiny_learner(policy, grad_clip=norm / 4), items)
    for name, gradient in free.items():
        torch.testing.assert_close(clipped[name], gradient / 4, rtol=1e-4, atol=1e-8)
    assert tiny_learner(policy, grad_clip=norm / 4).update(items, 0)["gradient/norm"] == pytest.approx(norm, rel=1e-5)


def test_the_learning_rate_follows_its_schedule() -> None:
    """Linear from 1 to 0 over 10 steps with 2 steps of warm-up: 1/3, 2/3, then 1 - (t - 2) / 8."""
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


def test_scheduled_coefficients_follow_the_step() -> None:
    policy = tiny_policy()
    learner = tiny_learner(policy, kl=Schedule("linear", 1.0, 0.0, 10))
    assert [learner.kl_coefficient(step) for step in (0, 5, 20)] == [1.0, 0.5, 0.0]
    assert learner.update([], 5)["kl/coefficient"] == 0.5


def test_the_adaptive_coefficient_follows_the_measured_kl() -> None:
    """Far above the target the coefficient grows by 0.2 x samples / horizon; far below it shrinks by as much."""
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


def test_near_its_target_the_adaptive_coefficient_changes_in_proportion() -> None:
    policy = tiny_policy()
    items = moved_away(with_advantages(rollout(policy, count=4)))
    objective = Objective(surrogate("ppo_clip"), "k3")
    kl = tiny_learner(policy, objective=objective, kl=0.5, lr=0.0).update(items, 0)["kl"]
    learner = tiny_learner(policy, objective=objective, kl=0.5, lr=0.0, adaptive=AdaptiveKL(kl / 1.1, 100))
    learner.update(items, 0)
    assert learner.kl_coefficient(1) == pytest.approx(0.5 * (1 + 0.1 * 12 / 100), rel=1e-6)


@pytest.mark.parametrize("optimiser", ["adamw", "adamw_fused", "adamw_8bit"])
def test_every_optimiser_steps_the_same_way(optimiser: str) -> None:
    """The first step of Adam is lr times the sign of the gradient, whatever the dtype of its state."""
    pytest.importorskip("bitsandbytes")
    policy = tiny_policy(shape=replace(SHAPE, width=64))  # large enough for 8-bit states, which need 4096 elements
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
def test_other_dtypes_give_nearly_the_same_gradient(options: dict[str, Any]) -> None:
    exact = tiny_policy()
    items = with_advantages(rollout(exact, count=4))
    wanted = gradients_of(tiny_learner(exact), items)
    policy = tiny_policy(**options)
    learner = tiny_learner(policy)
    before = weights_of(policy)
    metrics = learner.update(items, 0)
    while metrics["skipped"]:  # the loss scale is still too large
        metrics = learner.update(items, 0)
    assert math.isfinite(metrics["loss"])
    assert largest_difference(before, weights_of(policy)) > 0
    kept = {"bfloat16": torch.bfloat16}.get(options.get("dtype", ""), torch.float32)
    assert {weight.dtype for weight in weights_of(policy).values()} == {kept}
    fresh = tiny_policy(**options)
    other = tiny_learner(fresh)
    other.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, enabled="float16" in options.values())
    assert cosine(gradients_of(other, items), wanted) > 0.97


def test_lora_on_float16_weights_uses_loss_scaling() -> None:
    exact, half = tiny_policy(lora=Lora(4, 8)), tiny_policy(lora=Lora(4, 8), dtype="float16")
    items = with_advantages(rollout(exact, count=4))
    learner = tiny_learner(half)
    assert learner.scaler.is_enabled()
    learner.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    assert cosine(gradients_of(learner, items), gradients_of(tiny_learner(exact), items)) > 0.97
    assert not tiny_learner(tiny_policy(dtype="bfloat16")).scaler.is_enabled()


def test_float16_finds_its_loss_scale_without_quarantining_batches(tmp_path: Path) -> None:
    """An overflow halves the scale and skips the step, but quarantines no batch and does not stop the run."""
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


def test_float16_quarantines_a_batch_with_a_non_finite_loss(tmp_path: Path) -> None:
    policy = tiny_policy(autocast="float16")
    learner = tiny_learner(policy, quarantine=tmp_path, max_skipped=1)
    with pytest.raises(TrainingError, match="1 consecutive updates"):
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
