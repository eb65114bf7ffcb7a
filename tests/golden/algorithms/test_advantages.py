"""Every advantage estimator compared with values computed by hand."""

from __future__ import annotations

from math import sqrt

import pytest
import torch

from steelyard.algorithms.advantages import batch_norm, best_of_group, estimator, group_mean, group_norm, rloo
from steelyard.algorithms.subsets import max_at_k, pass_at_k

pytestmark = pytest.mark.golden

# Group 7 has rewards 1, 2, 3, 6: mean 3, deviations -2, -1, 0, 3, squares 4 + 1 + 0 + 9 = 14, sample variance 14/3.
# Group 2 has rewards 5, 5. Group 4 has the single reward 9. They are interleaved.
REWARD = torch.tensor([1.0, 5.0, 2.0, 3.0, 9.0, 6.0, 5.0], dtype=torch.float64)
GROUP = torch.tensor([7, 2, 7, 7, 4, 7, 2])
STD = sqrt(14 / 3)


def check(actual: torch.Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)


def test_group_norm() -> None:
    s = STD + 1e-6
    check(group_norm(REWARD, GROUP), [-2 / s, 0, -1 / s, 0, 0, 3 / s, 0])


def test_group_norm_adds_a_millionth_to_the_std() -> None:
    # Rewards 0 and 2e-6: mean 1e-6, sample variance 2e-12, so A = 1e-6 / (sqrt(2) 1e-6 + 1e-6) = 1 / (sqrt(2) + 1).
    advantage = 1 / (sqrt(2) + 1)
    check(group_norm(torch.tensor([0.0, 2e-6], dtype=torch.float64), torch.tensor([0, 0])), [-advantage, advantage])


def test_group_mean() -> None:
    check(group_mean(REWARD, GROUP), [-2, 0, -1, 0, 0, 3, 0])


def test_rloo() -> None:
    # Means of the other three rewards: 11/3, 10/3, 3, 2.
    check(rloo(REWARD, GROUP), [1 - 11 / 3, 0, 2 - 10 / 3, 0, 0, 6 - 2, 0])


def test_batch_norm() -> None:
    # Batch 1, 5, 2, 3, 9, 6, 5: sum 31, squares 181, sample variance (181 - 31^2 / 7) / 6.
    s = sqrt((181 - 31**2 / 7) / 6) + 1e-6
    check(batch_norm(REWARD, GROUP), [-2 / s, 0, -1 / s, 0, 0, 3 / s, 0])


def test_batch_norm_of_two_samples() -> None:
    # Rewards 0, 1 in one group: deviations -1/2, 1/2, sample variance of the batch 1/2.
    half = 0.5 / (sqrt(0.5) + 1e-6)
    check(batch_norm(torch.tensor([0.0, 1.0], dtype=torch.float64), torch.tensor([0, 0])), [-half, half])


def test_batch_norm_of_one_sample_is_zero() -> None:
    check(batch_norm(torch.tensor([3.0]), torch.tensor([0])), [0])


def test_best_of_group() -> None:
    # The best is 6 and the second best 3; all others get 0.
    check(best_of_group(REWARD, GROUP), [0, 0, 0, 0, 0, 3 / (STD + 1e-6), 0])


def test_best_of_group_with_a_tie_at_the_top_is_zero() -> None:
    check(best_of_group(torch.tensor([0.0, 1.0, 1.0]), torch.tensor([0, 0, 0])), [0, 0, 0])


def test_pass_at_k() -> None:
    # Group 0: n = 4, one correct, k = 2. C(3,2)/C(4,2) = 3/6, so R = 1/2 and s = 1/2. Correct: (1/2) / (1/2) = 1.
    # Wrong: (1/2 - C(2,1)/C(3,1)) / (1/2) = (1/2 - 2/3) * 2 = -1/3. Group 1: both correct, so s = 0.
    reward_M = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    check(pass_at_k(reward_M, torch.tensor([0, 0, 0, 1, 0, 1]), k=2), [-1 / 3, 1, -1 / 3, 0, -1 / 3, 0])


def test_pass_at_k_with_k_of_one_is_group_normalisation() -> None:
    # n = 4, one correct: R = 1/4, s = sqrt(3)/4. Correct: (3/4)/s = sqrt(3). Wrong: (3/4 - 1)/s = -1/sqrt(3).
    reward_M = torch.tensor([0.0, 1.0, 0.0, 0.0])
    low, high = -1 / sqrt(3), sqrt(3)
    check(pass_at_k(reward_M, torch.zeros(4, dtype=torch.int64), k=1), [low, high, low, low])


def test_pass_at_k_lowers_k_for_a_group_that_lost_samples() -> None:
    # Only 2 samples are left for k = 4, so k = n = 2. Every subset contains the correct sample, so s = 0.
    check(pass_at_k(torch.tensor([0.0, 1.0]), torch.tensor([0, 0]), k=4), [0, 0])


def test_max_at_k() -> None:
    # Rewards 1, 2, 4 and k = 2. Subset {1,2}: 2 adds 1; {1,4}: 4 adds 3; {2,4}: 4 adds 2.
    # So w = 0, 1/3, 5/3 and A = 3 w.
    reward_M = torch.tensor([4.0, 1.0, 2.0], dtype=torch.float64)
    check(max_at_k(reward_M, torch.tensor([3, 3, 3]), k=2), [5, 0, 1])


def test_max_at_k_of_the_whole_group_is_the_gap_at_the_top() -> None:
    # k = n = 4: there is one subset, and only 6 raises its maximum, by 6 - 3 = 3; A = 4 * 3.
    # Groups of equal rewards and of one sample get 0.
    check(max_at_k(REWARD, GROUP, k=4), [0, 0, 0, 0, 0, 12, 0])


def test_max_at_k_lowers_k_for_a_group_that_lost_samples() -> None:
    # Two samples are left for k = 3, so k = 2. The better sample adds 3; A = 2 * 3.
    check(max_at_k(torch.tensor([1.0, 4.0]), torch.tensor([0, 0]), k=3), [0, 6])


def test_non_dyadic_rewards_of_equal_groups_give_exactly_zero() -> None:
    reward_M = torch.tensor([0.1, 0.1, 0.1, 0.1 + 0.2, 0.3, 1e15 / 3, 1e15 / 3])
    group_M = torch.tensor([0, 0, 0, 1, 1, 2, 2])
    for name, k in [("group_norm", None), ("group_mean", None), ("rloo", None), ("batch_norm", None)]:
        assert estimator(name, k)(reward_M, group_M).tolist() == [0.0] * 7
    assert estimator("best_of_group")(reward_M, group_M).tolist() == [0.0] * 7
    assert estimator("max_at_k", 2)(reward_M, group_M).tolist() == [0.0] * 7


@pytest.mark.parametrize("name", ["group_norm", "group_mean", "rloo", "batch_norm", "best_of_group"])
@pytest.mark.parametrize(("spread", "equal"), [(0.9e-12, True), (1.1e-12, False)])
@pytest.mark.parametrize("scale", [1e-9, 1.0, -1e9])
def test_rewards_within_double_precision_rounding_count_as_equal(
    name: str, spread: float, equal: bool, scale: float
) -> None:
    reward_M = torch.tensor([1.0, 1.0, 1.0 - spread], dtype=torch.float64) * scale
    if name == "best_of_group":
        reward_M = torch.tensor([1.0 - spread, 1.0 - spread, 1.0], dtype=torch.float64) * abs(scale)
    advantage_M = estimator(name)(reward_M, torch.tensor([0, 0, 0]))
    assert (advantage_M == 0).all().item() == equal


def test_small_differences_count_at_a_large_offset_but_rounding_does_not() -> None:
    group_M = torch.tensor([0, 0, 1, 1])
    reward_M = torch.tensor([1000.0, 1000.0009, 0.1 + 0.2, 0.3], dtype=torch.float64)
    half = 0.00045 / (0.0009 / sqrt(2) + 1e-6)  # deviation over sample std + 1e-6
    assert group_norm(reward_M, group_M).tolist() == pytest.approx([-half, half, 0.0, 0.0], rel=1e-6)
    assert group_norm(reward_M, group_M).tolist()[2:] == [0.0, 0.0]


def test_a_large_offset_does_not_cost_precision() -> None:
    # 2^49 + (0, 1, 9) 2^30 are exact, but a third of their sum is off by up to 2^-4. Deviations: -10/3, -7/3, 17/3.
    reward_M = 2.0**49 + torch.tensor([0.0, 1.0, 9.0], dtype=torch.float64) * 2**30
    deviation_M = group_mean(reward_M, torch.tensor([0, 0, 0])) / 2**30
    assert deviation_M.tolist() == pytest.approx([-10 / 3, -7 / 3, 17 / 3], rel=1e-14)


@pytest.mark.parametrize("name", ["group_norm", "group_mean", "rloo", "batch_norm", "best_of_group", "max_at_k"])
def test_low_precision_rewards_are_converted_to_double(name: str) -> None:
    function = estimator(name, 2 if name == "max_at_k" else None)
    reward_M = torch.tensor([0.1, 0.7, 0.3])
    group_M = torch.tensor([0, 0, 0])
    assert torch.equal(function(reward_M, group_M), function(reward_M.to(torch.float64), group_M))
