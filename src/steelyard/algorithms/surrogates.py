"""Per-decision surrogate losses. Minimising these losses makes decisions with a positive advantage more likely.

``rho = exp(logp - old_logp)`` is the probability ratio of the current to the old policy. With a single update per
rollout, ``old_logp`` is the detached ``logp``, so the ratio is 1 and only its gradient matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from steelyard.algorithms.flat import renumber, require_flat
from steelyard.algorithms.lookup import look_up
from steelyard.defaults import CLIP_RANGES, RATIO_CAP
from steelyard.errors import ConfigError

MAX_LOG_RATIO = 20.0
"""Upper bound on log ratios. Without this bound ``exp`` can overflow, and 0 * inf is NaN in the gradient of a clipped
loss."""


@dataclass(frozen=True, slots=True, eq=False)
class SurrogateInput:
    """The N decisions of a microbatch in one flat tensor per quantity.

    A microbatch contains all decisions of a sample or none of them.
    """

    logp_N: Tensor
    old_logp_N: Tensor
    advantage_N: Tensor
    sample_N: Tensor
    """The sample index of each decision (any integers)."""

    def __post_init__(self) -> None:
        require_flat(
            logp_N=self.logp_N, old_logp_N=self.old_logp_N, advantage_N=self.advantage_N, sample_N=self.sample_N
        )


@dataclass(frozen=True, slots=True, eq=False)
class SurrogateOutput:
    """The loss of each decision, and whether it was clipped."""

    loss_N: Tensor
    clipped_N: Tensor
    """Whether the clip is active for the decision (bool)."""


Surrogate = Callable[[SurrogateInput], SurrogateOutput]


def ppo_clip(
    inp: SurrogateInput,
    *,
    clip_low: float = CLIP_RANGES["ppo_clip"][0],
    clip_high: float = CLIP_RANGES["ppo_clip"][1],
    dual_clip: float | None = None,
) -> SurrogateOutput:
    """``-min(rho A, clip(rho, 1 - low, 1 + high) A)``. PPO, arXiv 1707.06347.

    Both bounds default to 0.2, as in PPO and GRPO. DAPO's "clip-higher" (arXiv 2503.14476) sets ``clip_high=0.28`` so
    that unlikely tokens can gain probability.

    With ``dual_clip`` c (usually 3), the objective for a negative advantage is at least ``c A``. The dual clip limits
    how far one sample can push the policy away. Ye et al., arXiv 1912.09729.
    """
    ratio_N = _exp(inp.logp_N - inp.old_logp_N.detach())
    return _clipped(ratio_N, inp.advantage_N, clip_low, clip_high, dual_clip)


def gspo(
    inp: SurrogateInput, *, clip_low: float = CLIP_RANGES["gspo"][0], clip_high: float = CLIP_RANGES["gspo"][1]
) -> SurrogateOutput:
    """PPO's clip applied to the sequence ratio ``s_i = exp(mean_t log rho_t)`` over the sample's decisions.

    Each decision uses ``sg[s_i] * pi / sg[pi]``, which has the value of the sequence ratio and the gradient of the
    decision's own log-prob. The mean of these terms over the sequence has the gradient of ``s_i A``. Only
    ``sequence_mean`` takes that mean, so the configuration rejects GSPO with any other aggregation. arXiv 2507.18071.
    """
    log_ratio_N = inp.logp_N.detach() - inp.old_logp_N.detach()
    index_N, count_M = renumber(inp.sample_N)
    mean_M = log_ratio_N.new_zeros(len(count_M)).index_add(0, index_N, log_ratio_N) / count_M
    ratio_N = _exp(mean_M[index_N]) * torch.exp(inp.logp_N - inp.logp_N.detach())
    return _clipped(ratio_N, inp.advantage_N, clip_low, clip_high, None)


def cispo(inp: SurrogateInput, *, ratio_cap: float = RATIO_CAP) -> SurrogateOutput:
    """``-sg[min(rho, ratio_cap)] A log pi``: caps the weight but drops no decisions. MiniMax, arXiv 2506.13585."""
    ratio_N = _exp((inp.logp_N - inp.old_logp_N).detach())
    return SurrogateOutput(-ratio_N.clamp(max=ratio_cap) * inp.advantage_N * inp.logp_N, ratio_N > ratio_cap)


def reinforce(inp: SurrogateInput) -> SurrogateOutput:
    """``-A log pi``, without a ratio. This loss is correct only for a single update per rollout."""
    return SurrogateOutput(-inp.advantage_N * inp.logp_N, torch.zeros_like(inp.logp_N, dtype=torch.bool))


SURROGATES: dict[str, Callable[..., SurrogateOutput]] = {
    "ppo_clip": ppo_clip,
    "gspo": gspo,
    "cispo": cispo,
    "reinforce": reinforce,
}


def surrogate(name: str, **options: Any) -> Surrogate:
    """Return the surrogate called ``name`` with its options bound."""
    function = look_up("surrogate", name, SURROGATES)
    accepted = [key for key in signature(function).parameters if key != "inp"]
    unknown = [key for key in options if key not in accepted]
    if unknown:
        valid = ", ".join(accepted) or "none"
        raise ConfigError(f"surrogate {name!r} has no option {unknown[0]!r}: valid options are {valid}")
    return partial(function, **options)


def _exp(log_ratio_N: Tensor) -> Tensor:
    return log_ratio_N.clamp(max=MAX_LOG_RATIO).exp()


def _clipped(
    ratio_N: Tensor, advantage_N: Tensor, clip_low: float, clip_high: float, dual_clip: float | None
) -> SurrogateOutput:
    low, high = 1 - clip_low, 1 + clip_high
    objective_N = torch.minimum(ratio_N * advantage_N, ratio_N.clamp(low, high) * advantage_N)
    clipped_N = ((advantage_N > 0) & (ratio_N > high)) | ((advantage_N < 0) & (ratio_N < low))
    if dual_clip is not None:
        bounded_N = (advantage_N < 0) & (ratio_N > dual_clip)
        objective_N = torch.where(bounded_N, dual_clip * advantage_N, objective_N)
        clipped_N = clipped_N | bounded_N
    return SurrogateOutput(-objective_N, clipped_N)
