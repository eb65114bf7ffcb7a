"""KL in the loss for samples from a stale policy: the expected gradient, compared with enumeration.

All sentences of two tokens are listed with their probability under the policy that sampled them. The correct gradient
is that of the KL at the states this policy visits.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from benchmarks.correctness.seam_checks import SeamCheck
from steelyard.algorithms.objective import Objective, ObjectiveInput
from steelyard.algorithms.surrogates import reinforce

WORDS = 6
UNCAPPED = 1e9
SHIFT = 0.8
"""Distance of the current logits from the sampling policy's logits, in standard deviations."""


def _kl_at_states(kl: str, logp_SV: Tensor, reference_SV: Tensor) -> Tensor:
    if kl == "k3":  # the gradient of k3 is that of the forward KL
        return (reference_SV.exp() * (reference_SV - logp_SV)).sum(-1)
    return (logp_SV.exp() * (logp_SV - reference_SV)).sum(-1)


def relative_error(kl: str, seed: int) -> float:
    """Return |gradient - enumerated gradient| / |enumerated gradient|."""
    generator = torch.Generator().manual_seed(seed)
    drew_SV, moved_SV, reference_SV = torch.randn(3, 1 + WORDS, WORDS, dtype=torch.float64, generator=generator)
    logit_SV = (drew_SV + SHIFT * moved_SV).requires_grad_()
    logp_SV, behaviour_SV, reference_SV = (one.log_softmax(-1) for one in (logit_SV, drew_SV, reference_SV))
    first, second = torch.meshgrid(torch.arange(WORDS), torch.arange(WORDS), indexing="ij")
    state_N = torch.stack([torch.zeros_like(first), 1 + first], dim=-1).flatten()
    token_N = torch.stack([first, second], dim=-1).flatten()
    behaviour_N, logp_N = behaviour_SV[state_N, token_N], logp_SV[state_N, token_N]
    inp = ObjectiveInput(
        logp_N=logp_N,
        old_logp_N=logp_N.detach(),
        behaviour_logp_N=behaviour_N,
        advantage_N=torch.zeros_like(behaviour_N),
        sample_N=torch.arange(len(state_N)) // 2,
        weight_N=behaviour_N.reshape(-1, 2).sum(-1).exp().repeat_interleave(2),
        reference_logp_N=reference_SV[state_N, token_N],
        exact_kl_N=_kl_at_states("exact", logp_SV, reference_SV)[state_N],
    )
    loss = Objective(reinforce, kl, UNCAPPED)(inp, kl_coefficient=1.0).loss
    visited_S = torch.cat([torch.ones(1, dtype=torch.float64), behaviour_SV[0].exp()])
    wanted = (visited_S * _kl_at_states(kl, logp_SV, reference_SV)).sum()
    found, right = (torch.autograd.grad(value, logit_SV, retain_graph=True)[0] for value in (loss, wanted))
    return float((found - right).norm() / right.norm())


def _mean_error(kl: str, quick: bool) -> float:
    seeds = range(5 if quick else 50)
    return sum(relative_error(kl, seed) for seed in seeds) / len(seeds)


BEFORE = {"k2": 0.610, "k3": 1.462, "k3_unbiased": 0.610, "exact": 0.0}
CHECKS = tuple(
    SeamCheck("off-policy KL", f"relative gradient error, {kl}", before, partial(_mean_error, kl), "<=", 1e-9)
    for kl, before in BEFORE.items()
)
