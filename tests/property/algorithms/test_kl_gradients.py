"""Expected on-policy gradients of the KL estimators for a categorical policy, by exact enumeration in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from steelyard.algorithms.kl import k1, k3, kl_term

pytestmark = pytest.mark.property


@pytest.fixture(params=range(5))
def policy(request: pytest.FixtureRequest) -> tuple[Tensor, Tensor]:
    """Logits of a policy and log-probs of a reference over six tokens."""
    generator = torch.Generator().manual_seed(request.param)
    logit_V, reference_V = torch.randn(2, 6, dtype=torch.float64, generator=generator)
    return logit_V.requires_grad_(), reference_V.log_softmax(0)


def gradient(logit_V: Tensor, value: Tensor) -> Tensor:
    return torch.autograd.grad(value, logit_V)[0]


def reverse_kl(logit_V: Tensor, reference_V: Tensor) -> Tensor:
    logp_V = logit_V.log_softmax(0)
    return gradient(logit_V, (logp_V.exp() * (logp_V - reference_V)).sum())


def forward_kl(logit_V: Tensor, reference_V: Tensor) -> Tensor:
    return gradient(logit_V, (reference_V.exp() * (reference_V - logit_V.log_softmax(0))).sum())


def expected_gradient(logit_V: Tensor, term_V: Tensor) -> Tensor:
    """Return ``E_{x ~ pi} grad term(x)``, summed over all tokens. The probabilities are not differentiated."""
    return gradient(logit_V, (logit_V.softmax(0).detach() * term_V).sum())


def same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-13)


def test_k1_as_a_loss_has_no_gradient(policy: tuple[Tensor, Tensor]) -> None:
    logit_V, reference_V = policy
    same(expected_gradient(logit_V, k1(logit_V.log_softmax(0) - reference_V)), torch.zeros(6, dtype=torch.float64))
    assert reverse_kl(logit_V, reference_V).abs().max() > 0.01


@pytest.mark.parametrize(("name", "wanted"), [("k2", reverse_kl), ("k3", forward_kl), ("k3_unbiased", reverse_kl)])
def test_estimators_in_the_loss(policy: tuple[Tensor, Tensor], name: str, wanted: object) -> None:
    logit_V, reference_V = policy
    logp_V = logit_V.log_softmax(0)
    actual_V = expected_gradient(logit_V, kl_term(name, logp_V, reference_V, logp_V.detach()))
    same(actual_V, wanted(logit_V, reference_V))  # type: ignore[operator]
    assert (reverse_kl(logit_V, reference_V) - forward_kl(logit_V, reference_V)).abs().max() > 0.01


def test_k3_unbiased_corrects_for_an_older_policy(policy: tuple[Tensor, Tensor]) -> None:
    logit_V, reference_V = policy
    old_V = (logit_V.detach() + torch.linspace(-1, 1, 6, dtype=torch.float64)).log_softmax(0)
    term_V = kl_term("k3_unbiased", logit_V.log_softmax(0), reference_V, old_V)
    same(gradient(logit_V, (old_V.exp() * term_V).sum()), reverse_kl(logit_V, reference_V))


def test_k1_subtracted_from_the_reward(policy: tuple[Tensor, Tensor]) -> None:
    logit_V, reference_V = policy
    logp_V = logit_V.log_softmax(0)
    reward_V = -k1(logp_V - reference_V).detach()
    same(expected_gradient(logit_V, -reward_V * logp_V), reverse_kl(logit_V, reference_V))


def test_values_of_k1_and_k3_are_unbiased(policy: tuple[Tensor, Tensor]) -> None:
    logit_V, reference_V = policy
    probability_V = logit_V.softmax(0).detach()
    delta_V = probability_V.log() - reference_V
    same((probability_V * k1(delta_V)).sum(), (probability_V * k3(delta_V)).sum())
