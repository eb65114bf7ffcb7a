"""Reward and advantage shaping: length penalty, truncated samples, advantage clipping."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from steelyard.algorithms.flat import require_flat
from steelyard.defaults import TRUNCATION_PENALTY

Truncation = Literal["count", "mask", "penalise"]
"""How to treat samples that were cut off at the length limit: like any other sample (``count``), excluded from the
group and the loss (``mask``), or with a penalty subtracted from the reward (``penalise``)."""


def soft_length_penalty(length_M: Tensor, *, max_length: int, buffer: int) -> Tensor:
    """Return DAPO's soft overlong punishment, to be added to the reward. Yu et al., arXiv 2503.14476.

    The penalty is 0 up to ``max_length - buffer``, falls linearly to -1 at ``max_length`` and stays at -1 beyond.
    """
    require_flat(length_M=length_M)
    if not 0 < buffer <= max_length:
        raise ValueError(
            f"soft length penalty: buffer = {buffer} must be above 0 and at most max_length ({max_length})"
        )
    over_M = length_M.to(torch.float64) - (max_length - buffer)
    return -(over_M / buffer).clamp(0, 1)


def handle_truncated(
    reward_M: Tensor, truncated_M: Tensor, how: Truncation, penalty: float = TRUNCATION_PENALTY
) -> tuple[Tensor, Tensor]:
    """Apply the truncation rule. Return the rewards and a boolean mask of the samples to keep.

    The caller must exclude the other samples from the group statistics, the loss and its denominators, exactly as it
    excludes unscored samples.
    """
    require_flat(reward_M=reward_M, truncated_M=truncated_M)
    keep_M = ~truncated_M if how == "mask" else torch.ones_like(truncated_M)
    if how == "penalise":
        reward_M = torch.where(truncated_M, reward_M - penalty, reward_M)
    return reward_M, keep_M


def clip_advantages(advantage_M: Tensor, limit: float | None) -> Tensor:
    """Return ``clamp(A, -limit, limit)``; ``None`` disables clipping. Ratio clipping is separate."""
    return advantage_M if limit is None else advantage_M.clamp(-limit, limit)
