"""Correction for a sampler that is not quite the learner: other kernels, bfloat16, stale weights, replay.

Three log-probs are kept apart. *Behaviour*: recorded by the sampler when it drew. *Old*: the learner's at the start of
the update. *Current*: the learner's now. The clip of the surrogates uses
current / old; the correction here, old / behaviour.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from steelyard.algorithms.flat import largest, require_flat


def importance_weights(old_logp_N: Tensor, behaviour_logp_N: Tensor, cap: float) -> Tensor:
    """Truncated importance sampling: ``sg[min(old / behaviour, cap)]``, cap about 2. Ionides 2008 (truncation)."""
    require_flat(old_logp_N=old_logp_N, behaviour_logp_N=behaviour_logp_N)
    return (old_logp_N - behaviour_logp_N).detach().exp().clamp(max=cap)


@dataclass(frozen=True, slots=True, eq=False)
class ImportanceStatistics:
    """Unclipped statistics as scalar tensors; means are sums weighted by ``weight_N``.

    The mean ratio is 1 for any two distributions on one support, so it proves nothing: look at |log ratio|.
    """

    log_ratio: Tensor
    """Mean |log old / behaviour|."""
    log_ratio_max: Tensor
    ratio: Tensor
    capped: Tensor
    """Share of ratios above the cap (0 without one)."""


def importance_statistics(
    old_logp_N: Tensor, behaviour_logp_N: Tensor, weight_N: Tensor, cap: float | None = None
) -> ImportanceStatistics:
    """How far the sampler's distribution is from the learner's."""
    require_flat(old_logp_N=old_logp_N, behaviour_logp_N=behaviour_logp_N, weight_N=weight_N)
    log_ratio_N = (old_logp_N - behaviour_logp_N).detach()
    ratio_N = log_ratio_N.exp()
    size_N = log_ratio_N.abs()
    capped_N = torch.zeros_like(ratio_N) if cap is None else ratio_N > cap
    return ImportanceStatistics(
        log_ratio=(weight_N * size_N).sum(),
        log_ratio_max=largest(size_N),
        ratio=(weight_N * ratio_N).sum(),
        capped=(weight_N * capped_N).sum(),
    )
