"""Advantage estimators: how good each sample is relative to its group.

Every estimator takes ``reward_M`` (the rewards of all scored samples in the batch) and ``group_M`` (the group of each
sample) and returns ``advantage_M`` in float64. In a group whose rewards are all equal, and therefore in a group of one
sample, every advantage is exactly 0. Estimators that need a ``k`` are in `subsets.py`; `estimator` looks up any
estimator by name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from steelyard.algorithms.custom import custom_estimator
from steelyard.algorithms.groups import group_members, group_moments
from steelyard.algorithms.lookup import look_up
from steelyard.algorithms.subsets import max_at_k, pass_at_k
from steelyard.defaults import SMALLEST_K
from steelyard.errors import ConfigError

EPSILON = 1e-6

Estimator = Callable[..., Tensor]
"""``(reward_M, group_M) -> advantage_M``. An estimator can request more inputs by naming them as parameters; see
`facts.py`."""


def group_norm(reward_M: Tensor, group_M: Tensor) -> Tensor:
    """GRPO: ``A_i = (r_i - mean) / (std + 1e-6)`` with the sample std (n - 1). Shao et al., arXiv 2402.03300."""
    moments = group_moments(reward_M, group_M)
    return moments.deviation_M / (moments.std_M + EPSILON)


def group_mean(reward_M: Tensor, group_M: Tensor) -> Tensor:
    """Dr. GRPO: ``A_i = r_i - mean``. Liu et al., arXiv 2503.20783."""
    return group_moments(reward_M, group_M).deviation_M


def rloo(reward_M: Tensor, group_M: Tensor) -> Tensor:
    """Leave-one-out: ``A_i = r_i - mean_{j != i} r_j = n / (n - 1) * (r_i - mean)``. Ahmadian et al., arXiv 2402.14740.

    With ``constant`` aggregation, the expected update is the exact policy gradient.
    """
    moments = group_moments(reward_M, group_M)
    return moments.deviation_M * moments.count_M / (moments.count_M - 1).clamp(min=1)


def batch_norm(reward_M: Tensor, group_M: Tensor) -> Tensor:
    """Subtract the group's mean and divide by the sample std of the whole batch:
    ``A_i = (r_i - mean_group) / (std_batch + 1e-6)``.
    """
    deviation_M = group_moments(reward_M, group_M).deviation_M
    if len(reward_M) < 2:
        return deviation_M
    return deviation_M / (reward_M.to(torch.float64).std() + EPSILON)


def best_of_group(reward_M: Tensor, group_M: Tensor) -> Tensor:
    """Give the best sample ``A = (r_max - r_second) / (std + 1e-6)`` and all others 0. arXiv 2503.19595.

    The gradient vanishes when two samples tie for the best reward. Monitor pass@k, not the mean reward.
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
    """Return the estimator called ``name`` with ``k`` bound, or load a custom one from ``"module:function"``."""
    if ":" in name:
        return custom_estimator(name, k)
    hint = "; or pass your own function as 'module:function'"
    found = look_up("advantage estimator", name, {**ESTIMATORS, **SUBSET_ESTIMATORS}, hint)
    if name not in SUBSET_ESTIMATORS:
        if k is not None:
            raise ConfigError(f"advantage estimator {name!r} does not use k (got k = {k}): remove k, or use 'max_at_k'")
        return found
    if k is None or k < SMALLEST_K[name]:
        reason = " (k = 1 is 'rloo')" if name == "max_at_k" else ""
        raise ConfigError(f"advantage estimator {name!r} needs k >= {SMALLEST_K[name]}{reason}, got k = {k}")
    return partial(found, k=k)
