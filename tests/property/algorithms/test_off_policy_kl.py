"""KL in the loss for samples drawn by a stale policy or another engine: expected gradients by enumeration.

The tests enumerate all sentences of two tokens with their probability under the behaviour policy, so the expected loss
is a finite sum. The correct gradient is that of the KL at the states that the behaviour policy visits.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from steelyard.algorithms.objective import Objective, ObjectiveInput
from steelyard.algorithms.surrogates import reinforce

pytestmark = pytest.mark.property

WORDS = 4
NO_CAP = 1e9


def table(seed: int) -> Tensor:
    """Return the logits of every state: the start, and the state after each first word."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1 + WORDS, WORDS, dtype=torch.float64, generator=generator)


def sentences() -> tuple[Tensor, Tensor]:
    """Return the state and the token of every decision in all sentences, two decisions per sentence."""
    first, second = torch.meshgrid(torch.arange(WORDS), torch.arange(WORDS), indexing="ij")
    state = torch.stack([torch.zeros_like(first), 1 + first], dim=-1)
    return state.flatten(), torch.stack([first, second], dim=-1).flatten()


def kl_at_states(kl: str, logp_SV: Tensor, reference_SV: Tensor) -> Tensor:
    """Return the divergence whose gradient the estimator has: forward KL for ``k3``, otherwise reverse KL."""
    if kl == "k3":
        return (reference_SV.exp() * (reference_SV - logp_SV)).sum(-1)
    return (logp_SV.exp() * (logp_SV - reference_SV)).sum(-1)


def gradients(kl: str, cap: float | None, current: int, behaviour: int, reference: int) -> tuple[Tensor, Tensor]:
    """Return the gradients of the expected loss and of the KL at the states that the behaviour policy visits."""
    logit_SV = table(current).requires_grad_()
    logp_SV, behaviour_SV, reference_SV = (
        logit_SV.log_softmax(-1),
        table(behaviour).log_softmax(-1),
        table(reference).log_softmax(-1),
    )
    state_N, token_N = sentences()
    behaviour_N = behaviour_SV[state_N, token_N]
    probability_N = behaviour_N.reshape(-1, 2).sum(-1).exp().repeat_interleave(2)
    logp_N = logp_SV[state_N, token_N]
    inp = ObjectiveInput(
        logp_N=logp_N,
        old_logp_N=logp_N.detach(),
        behaviour_logp_N=behaviour_N,
        advantage_N=torch.zeros_like(behaviour_N),
        sample_N=torch.arange(len(state_N)) // 2,
        weight_N=probability_N,
        reference_logp_N=reference_SV[state_N, token_N],
        exact_kl_N=kl_at_states("exact", logp_SV, reference_SV)[state_N],
    )
    loss = Objective(reinforce, kl, cap)(inp, kl_coefficient=1.0).loss
    visited_S = torch.cat([torch.ones(1, dtype=torch.float64), behaviour_SV[0].exp()])
    wanted = (visited_S * kl_at_states(kl, logp_SV, reference_SV)).sum()
    return tuple(torch.autograd.grad(value, logit_SV, retain_graph=True)[0] for value in (loss, wanted))  # type: ignore[return-value]


@given(seeds=st.tuples(*[st.integers(0, 2**31)] * 3), kl=st.sampled_from(["k2", "k3", "k3_unbiased", "exact"]))
def test_the_expected_gradient_is_that_of_kl_at_the_visited_states(seeds: tuple[int, int, int], kl: str) -> None:
    found, wanted = gradients(kl, NO_CAP, *seeds)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kl", ["k2", "k3", "k3_unbiased"])
def test_without_the_correction_the_gradient_is_wrong(kl: str) -> None:
    found, wanted = gradients(kl, None, 0, 1, 2)
    assert (found - wanted).norm() > 0.1 * wanted.norm()


@pytest.mark.parametrize("kl", ["k2", "k3", "k3_unbiased"])
def test_on_policy_the_correction_has_no_effect(kl: str) -> None:
    plain, _ = gradients(kl, None, 3, 3, 4)
    found, wanted = gradients(kl, 1.5, 3, 3, 4)
    torch.testing.assert_close(found, plain, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


@given(seeds=st.tuples(*[st.integers(0, 2**31)] * 3))
def test_exact_needs_no_correction(seeds: tuple[int, int, int]) -> None:
    found, wanted = gradients("exact", None, *seeds)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
    capped, _ = gradients("exact", 1.1, *seeds)
    torch.testing.assert_close(capped, wanted, rtol=1e-9, atol=1e-12)
