"""Credit for samples whose text divides into spans (steps), each with a reward at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from steelyard.algorithms.flat import require_flat


def returns_to_go(reward_S: Sequence[float], gamma: float) -> list[float]:
    """``G_s = sum_{s' >= s} gamma^(s' - s) r_{s'}``, by ``G_s = r_s + gamma G_{s+1}``; s counts spans, not tokens."""
    return_S: list[float] = []
    ahead = 0.0
    for reward in reversed(reward_S):
        ahead = reward + gamma * ahead
        return_S.append(ahead)
    return return_S[::-1]


def span_advantages(
    rewards: Sequence[Sequence[float]],
    group_M: Tensor,
    estimator: Callable[[Tensor, Tensor], Tensor],
    gamma: float,
) -> list[Tensor]:
    """Advantage of every span of every sample: the estimator applied to returns-to-go, span by span.

    At span s a sample is compared with its group's ``G_{j, min(s, S_j)}``: a sample that has ended stands with its last
    return. ``rewards[i]`` are the S_i >= 1 span rewards of sample i. One terminal reward and gamma = 1 give
    every span the plain advantage of the sample.
    """
    if not rewards:
        return []
    empty = [i for i, reward_S in enumerate(rewards) if not len(reward_S)]
    if empty:
        raise ValueError(f"sample {empty[0]} has no span: a sample without step rewards is one span with its reward")
    returns = [torch.tensor(returns_to_go(reward_S, gamma), dtype=torch.float64) for reward_S in rewards]
    last_M = torch.tensor([len(return_S) - 1 for return_S in returns])
    require_flat(rewards=last_M, group_M=group_M)
    return_MS = torch.nn.utils.rnn.pad_sequence(returns, batch_first=True)
    row_M = torch.arange(len(returns))
    advantage_MS = torch.stack(
        [estimator(return_MS[row_M, last_M.clamp(max=s)], group_M) for s in range(return_MS.shape[1])], dim=1
    )
    return [advantage_MS[i, : len(return_S)] for i, return_S in enumerate(returns)]
