"""Discounted returns and advantages per span, computed by hand."""

from __future__ import annotations

import pytest
import torch

from steelyard.algorithms.advantages import group_mean, group_norm
from steelyard.algorithms.returns import returns_to_go, span_advantages

pytestmark = pytest.mark.golden


def test_returns_to_go() -> None:
    # From the end: 4; 2 + 4/2 = 4; 1 + 4/2 = 3.
    assert returns_to_go([1.0, 2.0, 4.0], 0.5) == [3.0, 4.0, 4.0]
    assert returns_to_go([1.0, 2.0, 4.0], 1.0) == [7.0, 6.0, 4.0]
    assert returns_to_go([1.0, 2.0, 4.0], 0.0) == [1.0, 2.0, 4.0]
    assert returns_to_go([], 1.0) == []


def test_span_advantages() -> None:
    # gamma = 1/2. Returns of sample 0: (0 + 2/2, 2) = (1, 2); of sample 1: (4); of sample 2:
    # (1 + (0 + 4/2)/2, 0 + 4/2, 4) = (2, 2, 4). Sample 3 is alone in its group. Span 0 compares 1, 4, 2 (mean 7/3),
    # span 1 compares 2, 4, 2 (mean 8/3), span 2 compares 2, 4, 4 (mean 10/3): a sample with fewer spans keeps
    # its last return.
    rewards = [[0.0, 2.0], [4.0], [1.0, 0.0, 4.0], [5.0, 6.0]]
    advantages = span_advantages(rewards, torch.tensor([1, 1, 1, 0]), group_mean, 0.5)
    expected = [[1 - 7 / 3, 2 - 8 / 3], [4 - 7 / 3], [2 - 7 / 3, 2 - 8 / 3, 4 - 10 / 3], [0, 0]]
    assert [advantage_S.tolist() for advantage_S in advantages] == [pytest.approx(row, abs=1e-12) for row in expected]
    assert all(advantage_S.dtype == torch.float64 for advantage_S in advantages)


def test_returns_are_double_precision() -> None:
    # float32 cannot represent 0.1 and 0.3 exactly. Mean 0.2, deviations of 0.1.
    advantages = span_advantages([[0.1], [0.3]], torch.tensor([0, 0]), group_mean, 1.0)
    assert [advantage_S.item() for advantage_S in advantages] == pytest.approx([-0.1, 0.1], rel=1e-14)


def test_one_terminal_reward_without_discount_equals_grpo() -> None:
    rewards = [[0.0, 0.0, 1.0], [0.0], [0.0, 0.5]]
    group_M = torch.tensor([0, 0, 0])
    plain_M = group_norm(torch.tensor([1.0, 0.0, 0.5], dtype=torch.float64), group_M)
    for reward_S, advantage_S, plain in zip(
        rewards, span_advantages(rewards, group_M, group_norm, 1.0), plain_M, strict=True
    ):
        assert advantage_S.tolist() == [plain.item()] * len(reward_S)


def test_no_samples_give_no_advantages() -> None:
    assert span_advantages([], torch.tensor([], dtype=torch.int64), group_mean, 1.0) == []


def test_a_sample_without_spans_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"sample 1 has no spans: .*single span"):
        span_advantages([[1.0], []], torch.tensor([0, 0]), group_mean, 1.0)


def test_groups_must_match_the_samples() -> None:
    with pytest.raises(ValueError, match=r"rewards \[2\], group_M \[3\]"):
        span_advantages([[1.0], [2.0]], torch.tensor([0, 0, 0]), group_mean, 1.0)
