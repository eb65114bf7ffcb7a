"""Importance correction for a sampler whose probabilities differ from the learner's.

Probabilities differ because of other kernels, bfloat16 rounding, stale weights or replay. Three log-probs are
distinguished: *behaviour*, recorded by the sampler; *old*, the learner's at the start of the update; and *current*, the
learner's now. The surrogates clip the ratio current / old. This module corrects the mismatch with the ratio old /
behaviour.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from steelyard.algorithms.flat import max_or_zero, require_flat


def importance_weights(old_logp_N: Tensor, behaviour_logp_N: Tensor, cap: float) -> Tensor:
    """Truncated importance sampling: ``sg[min(old / behaviour, cap)]``, with a cap of about 2. Ionides 2008."""
    require_flat(old_logp_N=old_logp_N, behaviour_logp_N=behaviour_logp_N)
    return (old_logp_N - behaviour_logp_N).detach().exp().clamp(max=cap)


@dataclass(frozen=True, slots=True, eq=False)
class ImportanceStatistics:
    """Statistics of the unclipped ratio as scalar tensors. Means are sums weighted by ``weight_N``.

    The expected ratio is 1 for any two distributions on the same support, so compare policies by |log ratio| instead.
    """

    log_ratio: Tensor
    """Mean |log old / behaviour|."""
    log_ratio_max: Tensor
    ratio: Tensor
    capped: Tensor
    """Fraction of ratios above the cap; 0 without a cap."""


def importance_statistics(
    old_logp_N: Tensor, behaviour_logp_N: Tensor, weight_N: Tensor, cap: float | None = None
) -> ImportanceStatistics:
    """Measure how far the sampler's distribution is from the learner's."""
    require_flat(old_logp_N=old_logp_N, behaviour_logp_N=behaviour_logp_N, weight_N=weight_N)
    log_ratio_N = (old_logp_N - behaviour_logp_N).detach()
    ratio_N = log_ratio_N.exp()
    size_N = log_ratio_N.abs()
    capped_N = torch.zeros_like(ratio_N) if cap is None else ratio_N > cap
    return ImportanceStatistics(
        log_ratio=(weight_N * size_N).sum(),
        log_ratio_max=max_or_zero(size_N),
        ratio=(weight_N * ratio_N).sum(),
        capped=(weight_N * capped_N).sum(),
    )
