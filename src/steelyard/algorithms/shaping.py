"""Small changes to rewards and advantages: length penalty, truncated samples, advantage clip."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from steelyard.algorithms.flat import require_flat
from steelyard.defaults import TRUNCATION_PENALTY

Truncation = Literal["count", "mask", "penalise"]
"""What to do with samples cut off at the longest length: let them count like others, leave them out of the group and
the loss, or take a penalty off their reward."""


def soft_length_penalty(length_M: Tensor, *, max_length: int, buffer: int) -> Tensor:
    """DAPO's soft overlong punishment, to be added to the reward. Yu et al., arXiv 2503.14476.

    0 up to ``max_length - buffer``, then linear down to -1 at ``max_length``, and -1 beyond.
    """
    require_flat(length_M=length_M)
    if not 0 < buffer <= max_length:
        raise ValueError(f"soft length penalty needs 0 < buffer <= max_length, got {buffer} and {max_length}")
    over_M = length_M.to(torch.float64) - (max_length - buffer)
    return -(over_M / buffer).clamp(0, 1)


def handle_truncated(
    reward_M: Tensor, truncated_M: Tensor, how: Truncation, penalty: float = TRUNCATION_PENALTY
) -> tuple[Tensor, Tensor]:
    """Rewards after truncation is dealt with, and which samples are kept (bool). Samples that are not kept must leave
    the group's statistics and the loss with its denominators, as unscored ones do.
    """
    require_flat(reward_M=reward_M, truncated_M=truncated_M)
    keep_M = ~truncated_M if how == "mask" else torch.ones_like(truncated_M)
    if how == "penalise":
        reward_M = torch.where(truncated_M, reward_M - penalty, reward_M)
    return reward_M, keep_M


def advantage_clip(advantage_M: Tensor, limit: float | None) -> Tensor:
    """``clamp(A, -limit, limit)``; a different knob from the ratio clip, and off with ``None``."""
    return advantage_M if limit is None else advantage_M.clamp(-limit, limit)
