"""Advantage estimators: how good each sample is relative to its group.

All take ``reward_M`` (scored samples of the whole batch) and ``group_M`` (the group of each) and return
``advantage_M`` in float64. A group whose rewards are all equal, and so a group of one, gives exactly 0. Pass@k-type
estimators that need ``k`` are in `subsets.py`; `estimator` looks all of them up by name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from steelyard.algorithms.custom import custom_estimator
from steelyard.algorithms.groups import group_members, group_moments
from steelyard.algorithms.names import look_up
from steelyard.algorithms.subsets import max_at_k, pass_at_k
from steelyard.defaults import SMALLEST_K
from steelyard.errors import ConfigError

EPSILON = 1e-6

Estimator = Callable[..., Tensor]
"""``(reward_M, group_M) -> advantage_M``; what it names as further parameters is passed too, see `facts.py`."""


def group_norm(reward_M: Tensor, group_M: Tensor) -> Tensor:
    """GRPO: ``A_i = (r_i - mean) / (std + 1e-6)`` with the sample std (n - 1). Shao et al., arXiv 2402.03300."""
    moments = group_moments(reward_M, group_M)
    return moments.deviation_M / (moments.std_M + EPSILON)


def group_mean(reward_M: Tensor, group_M: Tensor) -> Tensor:
    """Dr. GRPO: ``A_i = r_i - mean``. Liu et al., arXiv 2503.20783."""
    return group_moments(reward_M, group_M).deviation_M


def rloo(reward_M: Tensor, group_M: Tensor) -> Tensor:
    """Leave one out: ``A_i = r_i - mean_{j != i} r_j = n / (n - 1) * (r_i - mean)``. Ahmadian et al., arXiv 2402.14740.

    With ``constant`` aggregation this is the exact policy gradient in expectation.
    """
    moments = group_moments(reward_M, group_M)
    return moments.deviation_M * moments.count_M / (moments.count_M - 1).clamp(min=1)


def batch_norm(reward_M: Tensor, group_M: Tensor) -> Tensor:
    """The group's mean as baseline, the sample std of all rewards in the batch as scale:
    ``A_i = (r_i - mean_group) / (std_batch + 1e-6)``.
    """
    deviation_M = group_moments(reward_M, group_M).deviation_M
    if len(reward_M) < 2:
        return deviation_M
    return deviation_M / (reward_M.to(torch.float64).std() + EPSILON)


def best_of_group(reward_M: Tensor, group_M: Tensor) -> Tensor:
    """Only the best sample learns: ``(r_max - r_second) / (std + 1e-6)``, all others 0. arXiv 2503.19595.

    There is no gradient once two samples tie at the top; judge it by pass@k, not by the mean reward.
    """
    moments = group_moments(reward_M, group_M)
    advantage_M = torch.zeros_like(moments.deviation_M)
    for member_G in group_members(reward_M, group_M):
        best = member_G[moments.deviation_M[member_G].argmax()]
        if not moments.equal_M[best]:
            top = moments.deviation_M[member_G].topk(2).values
            advantage_M[best] = (top[0] - top[1]) / (moments.std_M[best] + EPSILON)
    return advantage_M


ESTIMATORS: dict[str, Estimator] = {
    "group_norm": group_norm,
    "group_mean": group_mean,
    "rloo": rloo,
    "batch_norm": batch_norm,
    "best_of_group": best_of_group,
}
SUBSET_ESTIMATORS: dict[str, Callable[..., Tensor]] = {"pass_at_k": pass_at_k, "max_at_k": max_at_k}


def estimator(name: str, k: int | None = None) -> Estimator:
    """The estimator of that name with ``k`` bound, or the user's own given as ``"module:function"``."""
    if ":" in name:
        return custom_estimator(name, k)
    hint = "; or give your own as 'module:function'"
    found = look_up("advantage estimator", name, {**ESTIMATORS, **SUBSET_ESTIMATORS}, hint)
    if name not in SUBSET_ESTIMATORS:
        if k is not None:
            raise ConfigError(f"advantage estimator {name!r} takes no k, got k = {k}: leave k out, or use 'max_at_k'")
        return found
    if k is None or k < SMALLEST_K[name]:
        reason = " (k = 1 is 'rloo')" if name == "max_at_k" else ""
        raise ConfigError(f"advantage estimator {name!r} needs k >= {SMALLEST_K[name]}{reason}, got k = {k}")
    return partial(found, k=k)
