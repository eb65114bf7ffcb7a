"""Distance to the reference policy: estimators from one drawn token, and the coefficient that weighs them.

``delta_N = logp_N - reference_logp_N``. All three estimate reverse KL(pi || reference) on-policy, but as a loss to
differentiate they are different things. The expected gradient is, for

- k1: zero, a penalty that does nothing (so it is refused in the loss; it is right when subtracted from the reward);
- k2: that of reverse KL;
- k3: that of *forward* KL(reference || pi);
- rho * k3 with rho = exp(logp - old_logp) not detached (``k3_unbiased``): that of reverse KL;
- ``exact``, the sum over the whole support, which the policy computes: that of reverse KL.

When the sampler is not the learner (stale weights, another engine), all but ``exact`` need the importance weight of the
drawn token; `objective.py` applies it.

Estimators: Schulman, http://joschu.net/blog/kl-approx.html.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from steelyard.algorithms.flat import require_flat
from steelyard.algorithms.names import look_up
from steelyard.errors import ConfigError

ADAPTIVE_LIMIT = 0.2
LOSS_ESTIMATORS = {"k2": False, "k3": False, "k3_unbiased": False, "exact": True}
"""What may stand in the loss, and whether it is the policy that computes it."""


def k1(delta_N: Tensor) -> Tensor:
    """``delta``: unbiased, noisy, may be negative."""
    return delta_N


def k2(delta_N: Tensor) -> Tensor:
    """``delta^2 / 2``: biased, never negative."""
    return delta_N.square() / 2


def k3(delta_N: Tensor) -> Tensor:
    """``exp(-delta) + delta - 1``: unbiased, never negative."""
    return torch.expm1(-delta_N) + delta_N


def check_loss_estimator(name: str) -> None:
    """Refuse names that are unknown, and k1, whose expected gradient is zero."""
    if name == "k1":
        raise ConfigError(
            "kl estimator 'k1' in the loss has an expected gradient of zero: it would not hold the policy to the"
            " reference at all. Use 'k2', 'k3', 'k3_unbiased' or 'exact', or put k1 into the reward"
        )
    look_up("kl estimator", name, LOSS_ESTIMATORS)


def kl_term(name: str, logp_N: Tensor, reference_logp_N: Tensor, old_logp_N: Tensor) -> Tensor:
    """The differentiable KL term of each decision for ``k2``, ``k3`` or ``k3_unbiased``."""
    require_flat(logp_N=logp_N, reference_logp_N=reference_logp_N, old_logp_N=old_logp_N)
    check_loss_estimator(name)
    delta_N = logp_N - reference_logp_N.detach()
    if name == "k2":
        return k2(delta_N)
    if name == "k3":
        return k3(delta_N)
    if name == "k3_unbiased":
        return torch.exp(logp_N - old_logp_N.detach()) * k3(delta_N)
    raise ValueError("kl 'exact' is a sum over the support: the policy computes it, not kl_term")


@dataclass(frozen=True, slots=True)
class AdaptiveKL:
    """Steers the coefficient so that KL stays near a target. Ziegler et al., arXiv 1909.08593.

    ``beta <- beta * (1 + clip(KL / target - 1, -0.2, 0.2) * min(samples / horizon, 1))``: a step moves it by a fifth at
    most, however many samples it has.
    """

    target: float
    horizon: float

    def __post_init__(self) -> None:
        if self.target <= 0 or self.horizon <= 0:
            raise ConfigError(f"adaptive kl needs target > 0 and horizon > 0, got {self.target} and {self.horizon}")

    def update(self, coefficient: float, kl: float, samples: int) -> float:
        """The next coefficient after a step of ``samples`` samples with mean ``kl``."""
        error = min(max(kl / self.target - 1, -ADAPTIVE_LIMIT), ADAPTIVE_LIMIT)
        return coefficient * (1 + error * min(samples / self.horizon, 1))
