"""`pass_at_k` and `max_at_k` equal the enumeration of all k-subsets, for every n up to 8 and every k."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import comb, sqrt

import pytest
import torch

from steelyard.algorithms.advantages import best_of_group, group_moments, rloo
from steelyard.algorithms.subsets import max_at_k, pass_at_k

pytestmark = pytest.mark.property


def enumerated_pass_at_k(correct: list[bool], k: int) -> list[float]:
    """Average the normalised reward (1 if any sample is correct) over the subsets that contain sample i."""
    subsets = list(combinations(range(len(correct)), k))
    passed = {subset: any(correct[i] for i in subset) for subset in subsets}
    mean = Fraction(sum(passed.values()), len(subsets))
    if mean in (0, 1):
        return [0.0] * len(correct)
    scale = sqrt(mean * (1 - mean))
    with_sample = [[passed[subset] for subset in subsets if i in subset] for i in range(len(correct))]
    return [float(Fraction(sum(rewards), len(rewards)) - mean) / scale for rewards in with_sample]


def enumerated_max_at_k(reward: list[int], k: int) -> list[float]:
    """Return n times the mean over all subsets of how much sample i raises the maximum of the subset."""
    n = len(reward)
    added = [0] * n
    for subset in combinations(range(n), k):
        for i in subset:
            added[i] += max(reward[j] for j in subset) - max(reward[j] for j in subset if j != i)
    return [float(Fraction(n * total, comb(n, k))) for total in added]


def group_of(n: int) -> torch.Tensor:
    return torch.zeros(n, dtype=torch.int64)


@pytest.mark.parametrize("n", range(1, 9))
def test_pass_at_k(n: int) -> None:
    for k, count in product(range(1, n + 1), range(n + 1)):
        correct = [(3 * i) % n < count for i in range(n)]
        advantage_G = pass_at_k(torch.tensor(correct, dtype=torch.float64), group_of(n), k=k)
        assert advantage_G.tolist() == pytest.approx(enumerated_pass_at_k(correct, k), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("n", range(2, 9))
def test_max_at_k(n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    draws = [torch.randint(-9, 9, (n,), generator=generator).tolist() for _ in range(6)]
    draws += [torch.randint(0, 2, (n,), generator=generator).tolist() for _ in range(4)]
    for k, reward in product(range(2, n + 1), draws):
        advantage_G = max_at_k(torch.tensor(reward, dtype=torch.float64), group_of(n), k=k)
        assert advantage_G.tolist() == pytest.approx(enumerated_max_at_k(reward, k), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("n", range(2, 9))
def test_max_at_k_of_the_whole_group_is_best_of_group_without_the_std(n: int) -> None:
    reward_G = torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
    std = group_moments(reward_G, group_of(n)).std_M[0]
    expected_G = n * best_of_group(reward_G, group_of(n)) * (std + 1e-6)
    torch.testing.assert_close(max_at_k(reward_G, group_of(n), k=n), expected_G, rtol=1e-12, atol=0)


def test_closed_form_of_the_paper() -> None:
    # Ascending rank a: w_a = sum_{b = k-2 .. a-1} C(b, k-2) (g_a - g_b) / C(n, k).
    reward = sorted(torch.randn(12, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).tolist())
    for k in range(2, 13):
        expected = [
            12 * sum(comb(b, k - 2) * (reward[a] - reward[b]) for b in range(k - 2, a)) / comb(12, k) for a in range(12)
        ]
        advantage_G = max_at_k(torch.tensor(reward, dtype=torch.float64), group_of(12), k=k)
        assert advantage_G.tolist() == pytest.approx(expected, rel=1e-11, abs=1e-12)


def test_max_at_one_would_be_rloo() -> None:
    # For k = n = 2 a sample adds its lead over the other, if positive; rloo is the signed lead.
    reward_G = torch.tensor([1.0, 3.0], dtype=torch.float64)
    assert max_at_k(reward_G, group_of(2), k=2).tolist() == [0.0, 4.0]
    assert rloo(reward_G, group_of(2)).tolist() == [-2.0, 2.0]


def test_large_groups_stay_finite() -> None:
    reward_G = torch.linspace(0, 1, 2000, dtype=torch.float64)
    advantage_G = max_at_k(reward_G, group_of(2000), k=100)
    assert torch.isfinite(advantage_G).all()
    correct_G = (torch.arange(2000) < 5).to(torch.float64)
    assert torch.isfinite(pass_at_k(correct_G, group_of(2000), k=100)).all()
