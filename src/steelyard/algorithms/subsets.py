"""Advantage estimators for pass@k and max@k: credit a sample for its contribution to random k-subsets of its group.

A group with fewer than k scored samples uses its own size as k.
"""

from __future__ import annotations

from math import comb, sqrt

import torch
from torch import Tensor

from steelyard.algorithms.groups import group_members, group_moments
from steelyard.errors import ConfigError


def pass_at_k(reward_M: Tensor, group_M: Tensor, *, k: int) -> Tensor:
    """Pass@k training for rewards of 0 and 1. Chen et al., arXiv 2508.10751.

    If w of n samples are wrong, k of them include a correct one with probability ``R = 1 - C(w, k) / C(n, k)``. Let
    ``s = sqrt(R (1 - R))``. A correct sample gets ``(1 - R) / s``, a wrong one
    ``(1 - R - C(w-1, k-1) / C(n-1, k-1)) / s``. If s = 0, all samples get 0.
    """
    if k < 1:
        raise ValueError(f"pass_at_k needs k >= 1, got k = {k}")
    members = group_members(reward_M, group_M)
    other_M = reward_M[(reward_M != 0) & (reward_M != 1)]
    if other_M.numel():
        raise ConfigError(f"pass_at_k needs rewards of 0 or 1, got {other_M[0].item()}: use max_at_k for other rewards")
    advantage_M = reward_M.new_zeros(len(reward_M), dtype=torch.float64)
    for member_G in members:
        correct_G = reward_M[member_G] == 1
        size = len(member_G)
        correct, wrong = _pass_at_k_values(size, size - int(correct_G.sum()), min(k, size))
        advantage_M[member_G[correct_G]] = correct
        advantage_M[member_G[~correct_G]] = wrong
    return advantage_M


def _pass_at_k_values(size: int, wrong: int, k: int) -> tuple[float, float]:
    """Return the advantages of a correct sample and a wrong one.

    The test for zero spread compares integers, so it is exact.
    """
    failing_subsets = comb(wrong, k)
    if failing_subsets == 0 or wrong == size:
        return 0.0, 0.0
    fail = failing_subsets / comb(size, k)
    scale = sqrt(fail * (1 - fail))
    return fail / scale, (fail - comb(wrong - 1, k - 1) / comb(size - 1, k - 1)) / scale


def max_at_k(reward_M: Tensor, group_M: Tensor, *, k: int) -> Tensor:
    """Max@k training for any rewards (PKPO, leave-one-out form). Walder and Karkhanis, arXiv 2505.15201.

    ``A_i = n * w_i``. The weight ``w_i`` is the amount by which sample i raises the maximum of a k-subset I of the
    group, ``max_I g - max_{I without i} g`` (0 if I does not contain i), averaged over all k-subsets. The factor n
    cancels the mean over the group in the aggregation.

    Sort the rewards in ascending order and count ranks from 0. In ``C(j, k-1)`` subsets, rank a beats the second best
    by at least the gap between ranks j - 1 and j. Therefore
    ``w_a = sum_{j=1..a} (g_j - g_{j-1}) C(j, k-1) / C(n, k)``, which avoids differences of large numbers and is exact
    for ties.
    """
    if k < 2:
        raise ValueError(f"max_at_k needs k >= 2 (k = 1 is rloo), got k = {k}")
    moments = group_moments(reward_M, group_M)
    advantage_M = torch.zeros_like(moments.deviation_M)
    for member_G in group_members(reward_M, group_M):
        size = len(member_G)
        if not moments.equal_M[member_G[0]]:
            sorted_G, order_G = reward_M[member_G].to(torch.float64).sort()
            advantage_M[member_G[order_G[1:]]] = (sorted_G.diff() * _gap_weights(size, min(k, size))).cumsum(0)
    return advantage_M


def _gap_weights(size: int, k: int) -> Tensor:
    """Return ``n C(j, k-1) / C(n, k)`` for j = 1 .. n-1."""
    return torch.tensor([size * comb(j, k - 1) / comb(size, k) for j in range(1, size)], dtype=torch.float64)
