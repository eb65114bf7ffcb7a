"""KL divergence to the reference policy: estimators based on the sampled token, and an adaptive coefficient.

With ``delta_N = logp_N - reference_logp_N``, the estimators k1, k2 and k3 all estimate reverse KL(pi || reference)
on-policy. As a loss, however, their expected gradients differ:

- k1: zero. A k1 penalty in the loss has no effect, so it is rejected. Subtracting k1 from the reward is correct.
- k2: the gradient of reverse KL.
- k3: the gradient of *forward* KL(reference || pi).
- ``k3_unbiased``, which is rho * k3 with rho = exp(logp - old_logp) not detached: the gradient of reverse KL.
- ``exact``, the sum over the full support, computed by the policy: the gradient of reverse KL.

If the sampler's distribution differs from the learner's (stale weights, another engine), every estimator except
``exact`` needs the importance weight of the sampled token. `objective.py` applies it.

Estimators: Schulman, http://joschu.net/blog/kl-approx.html.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from steelyard.algorithms.flat import require_flat
from steelyard.algorithms.lookup import look_up
from steelyard.errors import ConfigError

ADAPTIVE_LIMIT = 0.2
LOSS_ESTIMATORS = {"k2": False, "k3": False, "k3_unbiased": False, "exact": True}
"""Maps each estimator that is allowed in the loss to whether the policy computes it."""


def k1(delta_N: Tensor) -> Tensor:
    """Return ``delta``: unbiased, but noisy and possibly negative."""
    return delta_N


def k2(delta_N: Tensor) -> Tensor:
    """Return ``delta^2 / 2``: biased, never negative."""
    return delta_N.square() / 2


def k3(delta_N: Tensor) -> Tensor:
    """Return ``exp(-delta) + delta - 1``: unbiased, never negative."""
    return torch.expm1(-delta_N) + delta_N


def check_loss_estimator(name: str) -> None:
    """Raise an error for unknown names and for k1, whose expected gradient is zero."""
    if name == "k1":
        raise ConfigError(
            "kl estimator 'k1' has an expected gradient of zero in the loss, so it would not keep the policy near the"
            " reference: use 'k2', 'k3', 'k3_unbiased' or 'exact', or apply k1 to the reward"
        )
    look_up("kl estimator", name, LOSS_ESTIMATORS)


def kl_term(name: str, logp_N: Tensor, reference_logp_N: Tensor, old_logp_N: Tensor) -> Tensor:
    """Return the differentiable KL term of each decision for ``k2``, ``k3`` or ``k3_unbiased``."""
    require_flat(logp_N=logp_N, reference_logp_N=reference_logp_N, old_logp_N=old_logp_N)
    check_loss_estimator(name)
    delta_N = logp_N - reference_logp_N.detach()
    if name == "k2":
        return k2(delta_N)
    if name == "k3":
        return k3(delta_N)
    if name == "k3_unbiased":
        return torch.exp(logp_N - old_logp_N.detach()) * k3(delta_N)
    raise ValueError("kl_term does not support 'exact', which needs the full support; use the policy's exact_kl_N")


@dataclass(frozen=True, slots=True)
class AdaptiveKL:
    """Adjusts the KL coefficient to keep KL near a target. Ziegler et al., arXiv 1909.08593.

    ``beta <- beta * (1 + clip(KL / target - 1, -0.2, 0.2) * min(samples / horizon, 1))``. One step changes the
    coefficient by at most 20%, regardless of the number of samples.
    """

    target: float
    horizon: float

    def __post_init__(self) -> None:
        if self.target <= 0 or self.horizon <= 0:
            raise ConfigError(
                f"adaptive kl needs target > 0 and horizon > 0, got target = {self.target}, horizon = {self.horizon}"
            )

    def update(self, coefficient: float, kl: float, samples: int) -> float:
        """Return the coefficient after a step of ``samples`` samples whose mean KL is ``kl``."""
        error = min(max(kl / self.target - 1, -ADAPTIVE_LIMIT), ADAPTIVE_LIMIT)
        return coefficient * (1 + error * min(samples / self.horizon, 1))
