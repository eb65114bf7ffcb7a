"""Credit, objective, reference and learner are built with the values documented in the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from steelyard import compose
from steelyard.algorithms.kl import AdaptiveKL
from steelyard.algorithms.surrogates import SurrogateInput
from steelyard.compose.learning import build_adaptive_kl
from steelyard.policies.reference import AdapterOffReference, AdapterReference, CopyReference, Ema, Periodic, static

from .conftest import config_of


def clip_of(loss: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return the loss of decisions with advantages 1, -1 and -1 at ratios far above, below and above 1."""
    import torch

    chosen = compose.build_objective(config_of({"loss": loss}), None).surrogate
    shift_N, advantage_N = torch.tensor([3.0, -3.0, 3.0]), torch.tensor([1.0, -1.0, -1.0])
    zeros_N = torch.zeros(3)
    loss_N = chosen(SurrogateInput(shift_N, zeros_N, advantage_N, torch.arange(3))).loss_N
    return tuple(loss_N.tolist())


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ({}, (-1.2, 0.8, 20.0855)),
        ({"clip_high": 0.28}, (-1.28, 0.8, 20.0855)),
        ({"clip_low": 0.1, "dual_clip": 3.0}, (-1.2, 0.9, 3.0)),
        ({"surrogate": "gspo"}, (-1.0004, 0.9997, 20.0855)),
        ({"surrogate": "cispo"}, (-5.0 * 3, -0.0498 * 3, 5.0 * 3)),
        ({"surrogate": "cispo", "ratio_cap": 2.0}, (-2.0 * 3, -0.0498 * 3, 2.0 * 3)),
    ],
)
def test_clip_ranges_match_the_documentation(loss: Mapping[str, Any], expected: tuple[float, ...]) -> None:
    assert clip_of(loss) == pytest.approx(expected, rel=1e-3)


KL = {"kl": {"coefficient": 0.1}}


@pytest.mark.parametrize(
    ("tables", "kind", "renewal"),
    [
        ({}, type(None), None),
        ({"loss": KL}, CopyReference, static),
        ({"loss": KL, "reference": {"mode": "ema", "ema_decay": 0.9}}, CopyReference, Ema),
        ({"loss": KL, "reference": {"mode": "periodic", "every": 3}}, CopyReference, Periodic),
        ({"loss": KL, "lora": True}, AdapterOffReference, static),
        ({"loss": KL, "lora": True, "reference": {"mode": "ema", "ema_decay": 0.9}}, AdapterReference, Ema),
        ({"loss": KL, "lora": True, "reference": {"storage": "adapter"}}, AdapterReference, static),
        ({"loss": KL, "lora": True, "reference": {"storage": "copy"}}, CopyReference, static),
    ],
)
def test_the_reference_uses_the_cheapest_correct_storage(tables: dict[str, Any], kind: type, renewal: Any) -> None:
    tables = dict(tables)
    if tables.pop("lora", False):
        scratch = {"layers": 1, "width": 16, "heads": 2, "kv_heads": 1, "max_length": 32}
        tables["model"] = {"scratch": scratch, "lora": {"rank": 2}}
    config = config_of(tables)
    reference: Any = compose.build_reference_of(config, compose.build_policy(config))
    assert type(reference) is kind
    if renewal is not None:
        assert reference.renewal is renewal or isinstance(reference.renewal, renewal)


@pytest.mark.parametrize(("horizon", "expected"), [(None, 10 * 4 * 6), (500.0, 500.0)])
def test_the_horizon_of_an_adaptive_kl_scales_with_the_samples_per_step(horizon: float | None, expected: float) -> None:
    kl = {"coefficient": 0.05, "adaptive": {"target": 0.1} | ({} if horizon is None else {"horizon": horizon})}
    config = config_of({"loss": {"kl": kl}, "sampling": {"tasks_per_step": 4, "group_size": 6}})
    adaptive = config.loss.kl.adaptive
    assert adaptive is not None
    assert build_adaptive_kl(config, adaptive) == AdaptiveKL(0.1, expected)


def test_by_default_an_adaptive_kl_reacts_within_a_few_hundred_steps() -> None:
    config = config_of({"loss": {"kl": {"coefficient": 0.05, "adaptive": {"target": 0.1}}}})
    adaptive, samples = config.loss.kl.adaptive, config.sampling.tasks_per_step * config.sampling.group_size
    assert adaptive is not None
    rule, coefficient = build_adaptive_kl(config, adaptive), 1.0
    for _ in range(250):
        coefficient = rule.update(coefficient, 0.2, samples)
    assert coefficient > 100


def test_coefficients_and_schedules_reach_the_learner(tmp_path: Path) -> None:
    tables = {
        "run": {"steps": 100, "folder": str(tmp_path)},
        "optimiser": {"lr": 0.5, "schedule": "linear", "warmup_steps": 4, "min_lr_ratio": 0.1, "grad_clip": 0.0},
        "loss": {
            "kl": {"coefficient": {"kind": "linear", "start": 0.2, "end": 0.1, "steps": 50}},
            "entropy": {"coefficient": 0.03},
            "aggregation": "constant",
        },
    }
    learner = compose.build_trainer(config_of(tables)).learner
    assert [learner.coefficients.lr.value(step) for step in (0, 4, 100)] == pytest.approx([0.1, 0.5, 0.05])
    assert [learner.kl_coefficient(step) for step in (0, 25, 99)] == pytest.approx([0.2, 0.15, 0.1])
    assert learner.coefficients.entropy.value(7) == 0.03
    assert learner.rule.grad_clip is None
    assert learner.rule.constant_length == 6, "sampling.max_new_tokens"
    assert learner.objective.kl == "k3_unbiased"


def test_kl_in_the_reward_is_not_in_the_loss(tmp_path: Path) -> None:
    kl = {"coefficient": 0.1, "placement": "reward", "estimator": "k1"}
    learner = compose.build_trainer(config_of({"run": {"folder": str(tmp_path)}, "loss": {"kl": kl}})).learner
    assert learner.kl_in_reward
    assert learner.objective.kl is None


def test_the_truncation_penalty_comes_from_the_configuration() -> None:
    assert compose.build_credit(config_of({"credit": {"truncated": "penalise"}})).truncation_penalty == 1.0
    lighter = {"credit": {"truncated": "penalise", "truncation_penalty": 0.0}}
    assert compose.build_credit(config_of(lighter)).truncation_penalty == 0.0


@pytest.mark.parametrize(
    ("engine", "cap", "expected"),
    [("local", None, None), ("local", 3.0, 3.0), ("vllm", None, 2.0), ("vllm", 3.0, 3.0), ("vllm", 0.0, None)],
)
def test_samples_of_another_engine_are_corrected_by_default(
    engine: str, cap: float | None, expected: float | None
) -> None:
    loss = {} if cap is None else {"importance_cap": cap}
    config = config_of({"sampling": {"engine": engine, "max_new_tokens": 6}, "loss": loss})
    assert compose.build_objective(config, None).importance_cap == expected
