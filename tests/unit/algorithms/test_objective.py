"""The loss: its terms computed by hand, additivity over microbatches, metrics and errors."""

from __future__ import annotations

from math import log

import pytest
import torch
from torch import Tensor

from steelyard.algorithms.aggregation import decision_weights
from steelyard.algorithms.kl import k3
from steelyard.algorithms.objective import Objective, ObjectiveInput, merge_metrics
from steelyard.algorithms.surrogates import SURROGATES, ppo_clip, reinforce, surrogate
from steelyard.errors import ConfigError

pytestmark = pytest.mark.unit


def logs(*probabilities: float) -> Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log()


def example(**changes: Tensor | None) -> ObjectiveInput:
    """Two decisions from one sample and one from another; every ratio is a simple number.

    current / old = 2, 1, 1/2; old / behaviour = 1, 4, 1/2; current / reference = 2, 1, 1/4.
    """
    fields: dict[str, Tensor | None] = {
        "logp_N": logs(0.4, 0.4, 0.2).requires_grad_(),
        "old_logp_N": logs(0.2, 0.4, 0.4),
        "behaviour_logp_N": logs(0.2, 0.1, 0.8),
        "advantage_N": torch.tensor([1.0, 1.0, -2.0], dtype=torch.float64),
        "sample_N": torch.tensor([0, 0, 1]),
        "weight_N": torch.tensor([0.25, 0.25, 0.5], dtype=torch.float64),
        "entropy_N": torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64, requires_grad=True),
        "reference_logp_N": logs(0.2, 0.4, 0.8),
        "exact_kl_N": torch.tensor([0.5, 0.25, 0.125], dtype=torch.float64, requires_grad=True),
    }
    return ObjectiveInput(**{**fields, **changes})  # type: ignore[arg-type]


# With the default clip of 0.2, the surrogate losses are -1.2 (clipped), -1 and 0.8 * 2 = 1.6 (clipped).
SURROGATE = 0.25 * -1.2 + 0.25 * -1 + 0.5 * 1.6


def test_surrogate_alone() -> None:
    out = Objective(ppo_clip)(example())
    assert out.loss.item() == pytest.approx(SURROGATE, rel=1e-12)
    assert out.loss.requires_grad


def test_a_kl_coefficient_without_kl_has_no_effect() -> None:
    # With the KL in the reward, there is a coefficient but no loss term.
    assert Objective(ppo_clip)(example(), kl_coefficient=0.3).loss.item() == pytest.approx(SURROGATE, rel=1e-12)


def test_importance_correction_scales_the_surrogate_and_kl_of_the_sampled_token() -> None:
    # min(old / behaviour, 3) = 1, 3, 1/2; exact KL and entropy are unchanged.
    corrected = 0.25 * -1.2 + 0.25 * -3 + 0.5 * 0.8
    assert Objective(ppo_clip, importance_cap=3.0)(example()).loss.item() == pytest.approx(corrected, rel=1e-12)
    with_kl = Objective(ppo_clip, "exact", 3.0)(example(), kl_coefficient=0.4)
    assert with_kl.loss.item() == pytest.approx(corrected + 0.4 * 0.25, rel=1e-12)
    with_k2 = Objective(ppo_clip, "k2", 3.0)(example(reference_logp_N=logs(0.2, 0.2, 0.8)), kl_coefficient=0.4)
    k2 = 0.25 * 1 * log(2) ** 2 / 2 + 0.25 * 3 * log(2) ** 2 / 2 + 0.5 * 0.5 * log(4) ** 2 / 2
    assert with_k2.loss.item() == pytest.approx(corrected + 0.4 * k2, rel=1e-12)
    assert with_k2.metrics["kl"].item() == pytest.approx(k2, rel=1e-12)


@pytest.mark.parametrize(
    ("kl", "value"),
    [
        # delta = log 2, 0, -log 4; k3 = log 2 - 1/2, 0, 3 - log 4
        ("k2", 0.25 * log(2) ** 2 / 2 + 0.5 * log(4) ** 2 / 2),
        ("k3", 0.25 * (log(2) - 0.5) + 0.5 * (3 - log(4))),
        ("k3_unbiased", 0.25 * 2 * (log(2) - 0.5) + 0.5 * 0.5 * (3 - log(4))),
        ("exact", 0.25 * 0.5 + 0.25 * 0.25 + 0.5 * 0.125),
    ],
)
def test_kl_term(kl: str, value: float) -> None:
    out = Objective(ppo_clip, kl)(example(), kl_coefficient=0.3)
    assert out.loss.item() == pytest.approx(SURROGATE + 0.3 * value, rel=1e-12)
    assert out.metrics["kl"].item() == pytest.approx(value, rel=1e-12)
    # With a coefficient of zero, the KL metric is still reported.
    silent = Objective(ppo_clip, kl)(example())
    assert silent.loss.item() == pytest.approx(SURROGATE, rel=1e-12)
    assert silent.metrics["kl"].item() == pytest.approx(value, rel=1e-12)


def test_entropy_bonus_lowers_the_loss() -> None:
    out = Objective(ppo_clip)(example(), entropy_coefficient=0.5)
    assert out.loss.item() == pytest.approx(SURROGATE - 0.5 * (0.025 + 0.05 + 0.15), rel=1e-12)


def test_gradients_reach_log_probs_entropy_and_exact_kl() -> None:
    inp = example()
    Objective(reinforce, "exact", 2.0)(inp, kl_coefficient=0.1, entropy_coefficient=0.2).loss.backward()
    assert inp.entropy_N is not None and inp.exact_kl_N is not None  # noqa: PT018
    # -weight * importance * A with importance 1, 2 (capped), 1/2
    assert inp.logp_N.grad is not None
    assert inp.logp_N.grad.tolist() == pytest.approx([-0.25, -0.5, 0.5])
    assert inp.entropy_N.grad is not None
    assert inp.entropy_N.grad.tolist() == pytest.approx([-0.05, -0.05, -0.1])
    assert inp.exact_kl_N.grad is not None
    assert inp.exact_kl_N.grad.tolist() == pytest.approx([0.025, 0.025, 0.05])


def test_metrics() -> None:
    inp = example()
    out = Objective(ppo_clip, "k2", 3.0)(inp, kl_coefficient=0.1)
    metrics = {key: value.item() for key, value in out.metrics.items()}
    expected = {
        "loss": out.loss.item(),
        "weight": 1.0,
        "clip_share": 0.25 + 0.5,
        "kl": 0.25 * log(2) ** 2 / 2 + 0.5 * 0.5 * log(4) ** 2 / 2,
        "kl_k3": 0.25 * (log(2) - 0.5) + 0.5 * 0.5 * (3 - log(4)),
        "entropy": 0.225,
        "logp": 0.25 * log(0.4) + 0.25 * log(0.4) + 0.5 * log(0.2),
        "log_ratio": 0.25 * log(2) + 0.5 * log(2),
        "log_ratio_max": log(2),
        "importance_log_ratio": 0.25 * log(4) + 0.5 * log(2),
        "importance_log_ratio_max": log(4),
        "importance_ratio": 0.25 + 0.25 * 4 + 0.5 * 0.5,
        "importance_capped": 0.25,
    }
    assert metrics == pytest.approx(expected, rel=1e-12)
    assert list(metrics) == list(expected)
    assert not any(value.requires_grad for value in out.metrics.values())


def test_metrics_without_reference_and_entropy() -> None:
    out = Objective(ppo_clip)(example(entropy_N=None, reference_logp_N=None, exact_kl_N=None))
    assert not {"kl", "kl_k3", "entropy"} & set(out.metrics)
    assert out.metrics["importance_capped"].item() == 0.0


def test_kl_to_the_reference_is_reported_without_kl_in_the_loss() -> None:
    out = Objective(ppo_clip)(example())
    assert out.metrics["kl_k3"].item() == pytest.approx(0.25 * (log(2) - 0.5) + 0.5 * (3 - log(4)), rel=1e-12)
    assert "kl" not in out.metrics


def test_single_update_has_the_plain_policy_gradient() -> None:
    inp = example()
    same = example(logp_N=inp.logp_N, old_logp_N=inp.logp_N.detach(), behaviour_logp_N=inp.logp_N.detach())
    Objective(ppo_clip, importance_cap=2.0)(same).loss.backward()
    assert inp.logp_N.grad is not None
    assert inp.logp_N.grad.tolist() == pytest.approx([-0.25, -0.25, 1.0], rel=1e-12)


def random_input(seed: int, sizes: list[int], aggregation: str) -> ObjectiveInput:
    generator = torch.Generator().manual_seed(seed)
    count = sum(sizes)

    def draw(scale: float) -> Tensor:
        return scale * torch.randn(count, dtype=torch.float64, generator=generator)

    logp_N = -draw(1).abs()
    sample_N = torch.repeat_interleave(torch.tensor(sizes))
    return ObjectiveInput(
        logp_N=logp_N.requires_grad_(),
        old_logp_N=(logp_N + draw(0.3)).detach(),
        behaviour_logp_N=(logp_N + draw(0.5)).detach(),
        advantage_N=draw(1),
        sample_N=sample_N,
        weight_N=decision_weights(aggregation, sample_N, length=9, dtype=torch.float64),
        entropy_N=draw(1).abs(),
        reference_logp_N=(logp_N + draw(0.4)).detach(),
        exact_kl_N=draw(1).abs(),
    )


def part_of(inp: ObjectiveInput, keep_N: Tensor) -> ObjectiveInput:
    fields = {name: getattr(inp, name) for name in ObjectiveInput.__slots__}
    return ObjectiveInput(**{name: tensor[keep_N] for name, tensor in fields.items()})


@pytest.mark.parametrize("aggregation", ["sequence_mean", "token_mean", "constant"])
@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("kl", ["k2", "k3", "k3_unbiased", "exact"])
def test_microbatches_add_up(aggregation: str, name: str, kl: str) -> None:
    inp = random_input(1, [3, 1, 7, 2, 5], aggregation)
    objective = Objective(surrogate(name), kl, 2.0)
    coefficients = {"kl_coefficient": 0.2, "entropy_coefficient": 0.1}
    whole = objective(inp, **coefficients)
    (gradient,) = torch.autograd.grad(whole.loss, inp.logp_N)

    keeps = [torch.isin(inp.sample_N, torch.tensor(samples)) for samples in ([1, 4], [0], [2, 3])]
    parts = [objective(part_of(inp, keep_N), **coefficients) for keep_N in keeps]
    total = torch.stack([part.loss for part in parts]).sum()
    (gradient_of_parts,) = torch.autograd.grad(total, inp.logp_N)
    torch.testing.assert_close(total, whole.loss, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(gradient_of_parts, gradient, rtol=1e-12, atol=1e-14)

    merged = merge_metrics([part.metrics for part in parts])
    expected = merge_metrics([whole.metrics])
    assert list(merged) == list(expected)
    for key in merged:
        torch.testing.assert_close(merged[key], expected[key], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("aggregation", ["sequence_mean", "token_mean", "constant"])
def test_merged_metrics_are_true_means(aggregation: str) -> None:
    inp = random_input(2, [4, 4, 4], aggregation)
    merged = merge_metrics([Objective(ppo_clip)(inp).metrics])
    assert inp.reference_logp_N is not None
    # All samples have the same length, so every aggregation equals the plain mean.
    assert merged["logp"].item() == pytest.approx(inp.logp_N.mean().item(), rel=1e-12)
    assert merged["kl_k3"].item() == pytest.approx(k3(inp.logp_N - inp.reference_logp_N).mean().item(), rel=1e-12)


def test_merge_by_hand() -> None:
    def part(loss: float, weight: float, kl: float, log_ratio_max: float) -> dict[str, Tensor]:
        values = {"loss": loss, "weight": weight, "kl": kl, "log_ratio_max": log_ratio_max}
        return {key: torch.tensor(value) for key, value in values.items()}

    merged = merge_metrics([part(1.0, 0.25, 3.0, 5.0), part(2.0, 0.25, 4.0, 2.0)])
    assert {key: value.item() for key, value in merged.items()} == {
        "loss": 3.0,
        "weight": 0.5,
        "kl": 14.0,
        "log_ratio_max": 5.0,
    }
    assert merge_metrics([]) == {}


def test_nothing_to_learn_from() -> None:
    empty = torch.zeros(0)
    inp = ObjectiveInput(
        logp_N=empty.clone().requires_grad_(),
        old_logp_N=empty,
        behaviour_logp_N=empty,
        advantage_N=empty,
        sample_N=empty.to(torch.int64),
        weight_N=empty,
        entropy_N=empty,
        reference_logp_N=empty,
    )
    out = Objective(ppo_clip, "k3", 2.0)(inp, kl_coefficient=1.0, entropy_coefficient=1.0)
    out.loss.backward()
    assert all(value.item() == 0.0 for value in out.metrics.values())
    assert all(value.item() == 0.0 for value in merge_metrics([out.metrics]).values())


def test_errors() -> None:
    with pytest.raises(ConfigError, match="expected gradient of zero"):
        Objective(ppo_clip, "k1")
    for cap in (0.0, -1.0):
        with pytest.raises(ConfigError, match=f"^importance_cap = {cap} must be above 0"):
            Objective(ppo_clip, importance_cap=cap)
    assert Objective(ppo_clip, importance_cap=0.5).importance_cap == 0.5
    with pytest.raises(ValueError, match=r"^kl = 'k3' needs reference_logp_N"):
        Objective(ppo_clip, "k3")(example(reference_logp_N=None))
    with pytest.raises(ValueError, match=r"^kl = 'exact' needs exact_kl_N"):
        Objective(ppo_clip, "exact")(example(exact_kl_N=None))
    with pytest.raises(ValueError, match=r"^entropy_coefficient = 0\.5 needs entropy_N"):
        Objective(ppo_clip)(example(entropy_N=None), entropy_coefficient=0.5)
    with pytest.raises(ValueError, match=r"exact_kl_N \[2\]"):
        example(exact_kl_N=torch.zeros(2))
    with pytest.raises(ValueError, match=r"weight_N \[1\]"):
        example(weight_N=torch.zeros(1))
