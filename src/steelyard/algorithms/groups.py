"""Statistics of rewards within groups, on the flat layout that every advantage estimator shares.

``reward_M`` holds the rewards of all scored samples of a batch and ``group_M`` says which group each belongs to
(any integers, in any order). Unscored samples are simply absent, so they leave mean, std and count alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from steelyard.algorithms.flat import renumber, require_flat

RELATIVE_TOLERANCE = 1e-12
"""A group whose rewards differ by no more than this share of their size counts as equal: what thousands of float64
operations lose to rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupMoments:
    """Each sample's group seen from the sample, float64."""

    deviation_M: Tensor
    """Reward minus the group's mean; exactly 0 in a group whose rewards are all equal."""
    std_M: Tensor
    """Sample standard deviation (n - 1) of the group; 0 for a group of one."""
    count_M: Tensor
    """Samples in the group."""
    equal_M: Tensor
    """Whether all rewards of the group are equal, up to rounding."""


def group_moments(reward_M: Tensor, group_M: Tensor) -> GroupMoments:
    """Mean, spread and size of every group; rewards are taken from the group's lowest one so that a large common
    offset costs no digits.
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
    """For every group the positions of its samples."""
    index_M, count_U = _group_index(reward_M, group_M)
    return list(torch.argsort(index_M).split_with_sizes([int(count) for count in count_U]))


def _group_index(reward_M: Tensor, group_M: Tensor) -> tuple[Tensor, Tensor]:
    """Groups renumbered 0, 1, ... and the size of each."""
    require_flat(reward_M=reward_M, group_M=group_M)
    if not bool(torch.isfinite(reward_M).all()):
        raise ValueError("reward_M has values that are not finite: leave unscored samples out of the batch")
    return renumber(group_M)
