"""KL estimators and the adaptive coefficient, computed by hand."""

from __future__ import annotations

from math import exp, log

import pytest
import torch

from steelyard.algorithms.kl import AdaptiveKL, check_loss_estimator, k1, k2, k3, kl_term
from steelyard.errors import ConfigError

pytestmark = pytest.mark.golden

DELTA = torch.tensor([log(2.0), 0.0, -log(4.0)], dtype=torch.float64)


def near(expected: list[float]) -> object:
    return pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_estimators() -> None:
    assert k1(DELTA).tolist() == [log(2.0), 0.0, -log(4.0)]
    assert k2(DELTA).tolist() == near([log(2.0) ** 2 / 2, 0.0, log(4.0) ** 2 / 2])
    # exp(-log 2) + log 2 - 1 = log 2 - 1/2; exp(log 4) - log 4 - 1 = 3 - log 4.
    assert k3(DELTA).tolist() == near([log(2.0) - 0.5, 0.0, 3 - log(4.0)])


def test_k3_of_a_tiny_difference_keeps_its_digits() -> None:
    # delta^2 / 2 = 5e-9, far below float32's rounding of 1.
    assert k3(torch.tensor([1e-4])).item() == pytest.approx(5e-9, rel=0.01)


@pytest.mark.parametrize(
    ("name", "value", "slope"),
    [
        # Derivatives with respect to the log-prob: k2' = delta, k3' = 1 - exp(-delta), (rho k3)' = rho (k3 + k3')
        ("k2", log(2.0) ** 2 / 2, log(2.0)),
        ("k3", log(2.0) - 0.5, 0.5),
        ("k3_unbiased", 3 * (log(2.0) - 0.5), 3 * log(2.0)),
    ],
)
def test_terms_of_the_loss(name: str, value: float, slope: float) -> None:
    # pi = 0.6, reference = 0.3, old = 0.2: delta = log 2 and rho = 3.
    logp_N, reference_N, old_N = (
        torch.tensor([log(p)], dtype=torch.float64, requires_grad=True) for p in (0.6, 0.3, 0.2)
    )
    term_N = kl_term(name, logp_N, reference_N, old_N)
    term_N.sum().backward()
    assert logp_N.grad is not None
    assert term_N.tolist() == near([value])
    assert logp_N.grad.tolist() == near([slope])
    assert reference_N.grad is None
    assert old_N.grad is None


def test_k1_in_the_loss_is_rejected_with_the_reason() -> None:
    zero = torch.zeros(1)
    with pytest.raises(
        ConfigError, match=r"'k1' has an expected gradient of zero.*use 'k2', 'k3', 'k3_unbiased' or 'exact'"
    ):
        kl_term("k1", zero, zero, zero)


def test_unknown_and_misplaced_names() -> None:
    zero = torch.zeros(1)
    with pytest.raises(ConfigError, match="unknown kl estimator 'k33': did you mean 'k3'"):
        kl_term("k33", zero, zero, zero)
    with pytest.raises(ValueError, match=r"'exact'.*exact_kl_N"):
        kl_term("exact", zero, zero, zero)
    check_loss_estimator("exact")


def test_terms_must_have_one_shape() -> None:
    with pytest.raises(ValueError, match=r"logp_N \[1\], reference_logp_N \[2\], old_logp_N \[3\]"):
        kl_term("k3", torch.zeros(1), torch.zeros(2), torch.zeros(3))


@pytest.mark.parametrize(
    ("kl", "expected"),
    [
        # target 0.1, horizon 1000, 50 samples: factor 1 + clip(kl / 0.1 - 1, -0.2, 0.2) * 50 / 1000
        (0.11, 0.4 * (1 + 0.1 * 0.05)),
        (0.09, 0.4 * (1 - 0.1 * 0.05)),
        (0.5, 0.4 * 1.01),
        (0.0, 0.4 * 0.99),
        (0.1, 0.4),
    ],
)
def test_adaptive_coefficient(kl: float, expected: float) -> None:
    assert AdaptiveKL(target=0.1, horizon=1000).update(0.4, kl, 50) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("target", "horizon"), [(0.0, 10.0), (0.1, 0.0), (-1.0, 10.0), (0.1, -5.0)])
def test_adaptive_coefficient_needs_positive_settings(target: float, horizon: float) -> None:
    with pytest.raises(ConfigError, match=rf"target = {target}, horizon = {horizon}$"):
        AdaptiveKL(target, horizon)


@pytest.mark.parametrize(("kl", "expected"), [(0.0, 0.04), (0.09, 0.045), (0.11, 0.055), (9.0, 0.06)])
def test_a_step_larger_than_the_horizon_counts_as_one_horizon(kl: float, expected: float) -> None:
    assert AdaptiveKL(target=0.1, horizon=100).update(0.05, kl, 1024) == pytest.approx(expected, rel=1e-12)


def test_adaptive_settings_below_one_are_fine() -> None:
    assert AdaptiveKL(0.5, 0.5).update(1.0, 0.5, 1) == 1.0


def test_worked_example_of_the_ratio() -> None:
    assert exp(log(0.6) - log(0.2)) == pytest.approx(3.0)
