"""Advantages for samples that consist of several spans (steps), each with a reward at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from steelyard.algorithms.flat import require_flat


def returns_to_go(reward_S: Sequence[float], gamma: float) -> list[float]:
    """Return ``G_s = sum_{s' >= s} gamma^(s' - s) r_{s'}``, computed as ``G_s = r_s + gamma G_{s+1}``.

    The index s counts spans, not tokens.
    """
    return_S: list[float] = []
    following = 0.0
    for reward in reversed(reward_S):
        following = reward + gamma * following
        return_S.append(following)
    return return_S[::-1]


def span_advantages(
    rewards: Sequence[Sequence[float]],
    group_M: Tensor,
    estimator: Callable[[Tensor, Tensor], Tensor],
    gamma: float,
) -> list[Tensor]:
    """Apply the estimator to the returns-to-go, one span index at a time. Return one advantage per span and sample.

    ``rewards[i]`` holds the S_i >= 1 span rewards of sample i. At span s, a sample is compared with the returns
    ``G_{j, min(s, S_j)}`` of its group: a sample with fewer spans keeps its last return. With a single terminal reward
    and gamma = 1, every span gets the sample's ordinary advantage.
    """
    if not rewards:
        return []
    empty = [i for i, reward_S in enumerate(rewards) if not len(reward_S)]
    if empty:
        raise ValueError(
            f"sample {empty[0]} has no spans: pass a sample without step rewards as a single span with its reward"
        )
    returns = [torch.tensor(returns_to_go(reward_S, gamma), dtype=torch.float64) for reward_S in rewards]
    last_M = torch.tensor([len(return_S) - 1 for return_S in returns])
    require_flat(rewards=last_M, group_M=group_M)
    return_MS = torch.nn.utils.rnn.pad_sequence(returns, batch_first=True)
    row_M = torch.arange(len(returns))
    advantage_MS = torch.stack(
        [estimator(return_MS[row_M, last_M.clamp(max=s)], group_M) for s in range(return_MS.shape[1])], dim=1
    )
    return [advantage_MS[i, : len(return_S)] for i, return_S in enumerate(returns)]
