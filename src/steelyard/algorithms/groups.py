"""Reward statistics per group, in the flat layout that all advantage estimators share.

``reward_M`` holds the rewards of all scored samples of a batch. ``group_M`` holds the group of each sample (any
integers, in any order). Unscored samples are not included, so they do not affect the mean, std or count.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from steelyard.algorithms.flat import renumber, require_flat

RELATIVE_TOLERANCE = 1e-12
"""Rewards of a group count as equal if they differ by at most this fraction of their magnitude. The tolerance allows
for the rounding error of thousands of float64 operations."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupMoments:
    """The statistics of each sample's group, one entry per sample, in float64."""

    deviation_M: Tensor
    """Reward minus the group's mean; exactly 0 in a group whose rewards are all equal."""
    std_M: Tensor
    """Sample standard deviation (n - 1) of the group; 0 for a group of one."""
    count_M: Tensor
    """Number of samples in the group."""
    equal_M: Tensor
    """Whether all rewards of the group are equal, up to rounding."""


def group_moments(reward_M: Tensor, group_M: Tensor) -> GroupMoments:
    """Compute the deviation from the mean, the standard deviation and the size of every group.

    Each group's minimum is subtracted first, so that a large common offset does not cost precision.
    """
    index_M, count_U = _group_index(reward_M, group_M)
    size = len(count_U)
    reward_M = reward_M.to(torch.float64)
    low_U = reward_M.new_full((size,), torch.inf).scatter_reduce(0, index_M, reward_M, "amin")
    high_U = reward_M.new_full((size,), -torch.inf).scatter_reduce(0, index_M, reward_M, "amax")
    equal_M = (high_U - low_U <= RELATIVE_TOLERANCE * torch.maximum(high_U.abs(), low_U.abs()))[index_M]

    above_low_M = reward_M - low_U[index_M]
    mean_U = reward_M.new_zeros(size).index_add(0, index_M, above_low_M) / count_U
    deviation_M = (above_low_M - mean_U[index_M]).masked_fill(equal_M, 0.0)
    square_U = reward_M.new_zeros(size).index_add(0, index_M, deviation_M.square())
    std_U = (square_U / (count_U - 1).clamp(min=1)).sqrt()
    return GroupMoments(deviation_M, std_U[index_M], count_U[index_M], equal_M)


def group_members(reward_M: Tensor, group_M: Tensor) -> list[Tensor]:
    """Return the indices of each group's samples."""
    index_M, count_U = _group_index(reward_M, group_M)
    return list(torch.argsort(index_M).split_with_sizes([int(count) for count in count_U]))


def _group_index(reward_M: Tensor, group_M: Tensor) -> tuple[Tensor, Tensor]:
    """Number the groups 0, 1, ... and return the group of each sample and the size of each group."""
    require_flat(reward_M=reward_M, group_M=group_M)
    if not bool(torch.isfinite(reward_M).all()):
        raise ValueError("reward_M contains non-finite values: remove unscored samples from the batch")
    return renumber(group_M)
