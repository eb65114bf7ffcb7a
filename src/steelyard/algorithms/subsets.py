"""Advantage estimators that credit a sample for what it adds to random subsets of k samples of its group.

A group that lost samples (unscored ones are absent) and has fewer than k left is treated with k = its size.
"""

from __future__ import annotations

from math import comb, sqrt

import torch
from torch import Tensor

from steelyard.algorithms.groups import group_members, group_moments
from steelyard.errors import ConfigError


def pass_at_k(reward_M: Tensor, group_M: Tensor, *, k: int) -> Tensor:
    """Pass@k training for rewards of 0 and 1. Chen et al., arXiv 2508.10751.

    With n samples of which w are wrong, ``R = 1 - C(w, k) / C(n, k)`` is the chance that k of them hold a right one
    and ``s = sqrt(R (1 - R))``. A right sample gets ``(1 - R) / s``, a wrong one
    ``(1 - R - C(w-1, k-1) / C(n-1, k-1)) / s``; if s = 0, all get 0.
    """
    if k < 1:
        raise ValueError(f"pass_at_k needs k >= 1, got {k}")
    members = group_members(reward_M, group_M)
    other_M = reward_M[(reward_M != 0) & (reward_M != 1)]
    if other_M.numel():
        raise ConfigError(f"pass_at_k needs rewards of 0 or 1, got {other_M[0].item()}: use max_at_k for other rewards")
    advantage_M = reward_M.new_zeros(len(reward_M), dtype=torch.float64)
    for member_G in members:
        right_G = reward_M[member_G] == 1
        size = len(member_G)
        right, wrong = _pass_at_k_values(size, size - int(right_G.sum()), min(k, size))
        advantage_M[member_G[right_G]] = right
        advantage_M[member_G[~right_G]] = wrong
    return advantage_M


def _pass_at_k_values(size: int, wrong: int, k: int) -> tuple[float, float]:
    """Advantage of a right and of a wrong sample; counts are whole numbers, so "no spread" is exact."""
    missed = comb(wrong, k)
    if missed == 0 or wrong == size:
        return 0.0, 0.0
    fail = missed / comb(size, k)
    scale = sqrt(fail * (1 - fail))
    return fail / scale, (fail - comb(wrong - 1, k - 1) / comb(size - 1, k - 1)) / scale


def max_at_k(reward_M: Tensor, group_M: Tensor, *, k: int) -> Tensor:
    """Max@k for any rewards (PKPO, leave-one-out form). Walder and Karkhanis, arXiv 2505.15201.

    ``A_i = n * w_i`` where ``w_i`` is the mean over all k-subsets of the group (0 for those without i) of what i adds
    to the subset's best: ``max_I g - max_{I without i} g``. The factor n undoes the aggregation's mean over the group.
    With rewards in ascending order, counted from 0, the subsets in which rank a beats the next best by at least the
    gap between ranks j - 1 and j number ``C(j, k-1)``, so
    ``w_a = sum_{j=1..a} (g_j - g_{j-1}) C(j, k-1) / C(n, k)``: no differences of large numbers, ties exact.
    """
    if k < 2:
        raise ValueError(f"max_at_k needs k >= 2 (k = 1 is rloo), got {k}")
    moments = group_moments(reward_M, group_M)
    advantage_M = torch.zeros_like(moments.deviation_M)
    for member_G in group_members(reward_M, group_M):
        size = len(member_G)
        if not moments.equal_M[member_G[0]]:
            sorted_G, order_G = reward_M[member_G].to(torch.float64).sort()
            advantage_M[member_G[order_G[1:]]] = (sorted_G.diff() * _gap_share(size, min(k, size))).cumsum(0)
    return advantage_M


def _gap_share(size: int, k: int) -> Tensor:
    """``n C(j, k-1) / C(n, k)`` for j = 1 .. n-1."""
    return torch.tensor([size * comb(j, k - 1) / comb(size, k) for j in range(1, size)], dtype=torch.float64)
