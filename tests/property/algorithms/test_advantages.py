"""Properties of the advantage estimators for arbitrary rewards and groups."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from steelyard.algorithms.advantages import Estimator, estimator

pytestmark = pytest.mark.property

ALL: dict[str, Estimator] = {
    name: estimator(name) for name in ("group_norm", "group_mean", "rloo", "batch_norm", "best_of_group")
} | {f"max_at_{k}": estimator("max_at_k", k) for k in (2, 3, 5)}
BINARY: dict[str, Estimator] = {f"pass_at_{k}": estimator("pass_at_k", k) for k in (1, 2, 4)}
LINEAR = ("group_mean", "rloo", "max_at_2", "max_at_3", "max_at_5")
GROUP_WISE = tuple(name for name in ALL if name != "batch_norm")

everywhere = pytest.mark.parametrize("name", ALL)
quick = settings(max_examples=40, derandomize=True)


@st.composite
def batches(draw: st.DrawFn, binary: bool = False) -> tuple[Tensor, Tensor]:
    """Draw rewards and their groups in any order. Rewards are multiples of 1/4, so no difference is rounding error."""
    size = draw(st.integers(1, 16))
    low, high = (0, 1) if binary else (-40, 40)
    quarters = draw(st.lists(st.integers(low, high), min_size=size, max_size=size))
    group = draw(st.lists(st.sampled_from([-3, 0, 8]), min_size=size, max_size=size))
    reward_M = torch.tensor(quarters, dtype=torch.float64)
    return reward_M if binary else reward_M / 4, torch.tensor(group)


def same(actual: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@everywhere
@quick
@given(batch=batches(), shift=st.floats(-1e4, 1e4))
def test_shift_invariance(name: str, batch: tuple[Tensor, Tensor], shift: float) -> None:
    reward_M, group_M = batch
    same(ALL[name](reward_M + shift, group_M), ALL[name](reward_M, group_M), 1e-7)


@pytest.mark.parametrize("name", LINEAR)
@quick
@given(batch=batches(), scale=st.floats(1e-6, 1e6))
def test_linear_estimators_scale_with_the_reward(name: str, batch: tuple[Tensor, Tensor], scale: float) -> None:
    reward_M, group_M = batch
    same(ALL[name](reward_M * scale, group_M) / scale, ALL[name](reward_M, group_M))


@pytest.mark.parametrize("name", ["group_norm", "batch_norm", "best_of_group"])
@quick
@given(batch=batches(), scale=st.floats(1.0, 1e6))
def test_normalised_estimators_do_not_scale_with_the_reward(
    name: str, batch: tuple[Tensor, Tensor], scale: float
) -> None:
    # The std is at least 1/16 (a quarter among 16), so adding 1e-6 changes it by a factor of less than 1 + 2e-5.
    reward_M, group_M = batch
    same(ALL[name](reward_M * scale, group_M), ALL[name](reward_M, group_M), 2e-5)


@everywhere
@quick
@given(batch=batches(), seed=st.integers(0, 1000))
def test_permutation_equivariance(name: str, batch: tuple[Tensor, Tensor], seed: int) -> None:
    reward_M, group_M = batch
    order_M = torch.randperm(len(reward_M), generator=torch.Generator().manual_seed(seed))
    same(ALL[name](reward_M[order_M], group_M[order_M]), ALL[name](reward_M, group_M)[order_M])


@pytest.mark.parametrize("name", GROUP_WISE)
@quick
@given(batch=batches())
def test_groups_are_independent(name: str, batch: tuple[Tensor, Tensor]) -> None:
    reward_M, group_M = batch
    whole_M = ALL[name](reward_M, group_M)
    for label in group_M.unique():
        mine_M = group_M == label
        same(ALL[name](reward_M[mine_M], group_M[mine_M]), whole_M[mine_M], 1e-12)


@pytest.mark.parametrize("name", BINARY)
@quick
@given(batch=batches(binary=True), seed=st.integers(0, 1000))
def test_pass_at_k_permutes_and_keeps_groups_apart(name: str, batch: tuple[Tensor, Tensor], seed: int) -> None:
    reward_M, group_M = batch
    whole_M = BINARY[name](reward_M, group_M)
    order_M = torch.randperm(len(reward_M), generator=torch.Generator().manual_seed(seed))
    same(BINARY[name](reward_M[order_M], group_M[order_M]), whole_M[order_M])
    for label in group_M.unique():
        mine_M = group_M == label
        same(BINARY[name](reward_M[mine_M], group_M[mine_M]), whole_M[mine_M], 1e-12)
        assert (whole_M[mine_M & (reward_M == 1)] >= 0).all()
        assert abs(whole_M[mine_M].sum().item()) < 1e-9


@everywhere
@quick
@given(batch=batches(), value=st.floats(-1e12, 1e12), noise=st.lists(st.integers(-3, 3), min_size=16, max_size=16))
def test_equal_rewards_give_exactly_zero(
    name: str, batch: tuple[Tensor, Tensor], value: float, noise: list[int]
) -> None:
    # The rewards of group 0 differ by at most a few units in the last place; the other groups vary.
    reward_M, group_M = batch
    wobble_M = 1 + torch.tensor(noise[: len(reward_M)], dtype=torch.float64) * torch.finfo(torch.float64).eps
    mixed_M = torch.where(group_M == 0, value * wobble_M, reward_M)
    assert (ALL[name](mixed_M, group_M)[group_M == 0] == 0).all()


@everywhere
@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.7, 1e9 + 0.1, -2.3e-7])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_repeated_non_dyadic_rewards_give_exactly_zero(name: str, value: float, size: int) -> None:
    reward_M = torch.full((size,), value, dtype=torch.float64)
    assert ALL[name](reward_M, torch.zeros(size, dtype=torch.int64)).tolist() == [0.0] * size


@everywhere
@quick
@given(batch=batches())
def test_a_better_sample_never_gets_less(name: str, batch: tuple[Tensor, Tensor]) -> None:
    reward_M, group_M = batch
    advantage_M = ALL[name](reward_M, group_M)
    for label in group_M.unique():
        mine_M = group_M == label
        ordered_G = advantage_M[mine_M][reward_M[mine_M].argsort()]
        assert (ordered_G.diff() >= -1e-12).all()


@pytest.mark.parametrize("name", ["group_norm", "group_mean", "rloo", "batch_norm"])
@quick
@given(batch=batches())
def test_advantages_of_a_group_sum_to_zero(name: str, batch: tuple[Tensor, Tensor]) -> None:
    reward_M, group_M = batch
    advantage_M = ALL[name](reward_M, group_M)
    assert all(abs(advantage_M[group_M == label].sum().item()) < 1e-9 for label in group_M.unique())


@quick
@given(batch=batches())
def test_group_norm_has_unit_spread(batch: tuple[Tensor, Tensor]) -> None:
    reward_M, group_M = batch
    advantage_M = ALL["group_norm"](reward_M, group_M)
    for label in group_M.unique():
        mine_M = group_M == label
        if len(reward_M[mine_M].unique()) > 1:
            assert advantage_M[mine_M].std().item() == pytest.approx(1.0, abs=2e-5)
