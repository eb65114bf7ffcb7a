"""Stochastic rounding is unbiased, exact where possible and reproducible from its key."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from steelyard.training.rounding import BLOCK, STREAMS, RoundingBits, round_stochastically

CPU = torch.device("cpu")


def stochastic_bfloat16(value: Tensor, bits: Tensor) -> Tensor:
    rounded = value.clone()
    round_stochastically(rounded, bits)
    assert torch.equal(rounded.bfloat16().float()[rounded.isfinite()], rounded[rounded.isfinite()])
    return rounded.bfloat16()


def bits_of(count: int, *, seed: int = 0, step: int = 1, weight: int = 0, start: int = 0) -> Tensor:
    bits = torch.empty(STREAMS, count, dtype=torch.int32)
    RoundingBits(seed, step, weight, start + count, CPU).into(start, bits)
    return bits


@pytest.mark.parametrize("value", [1.0, -1.0, 1.0 + 2**-7, 3.1e-40, -0.0, 65280.0])
def test_numbers_that_bfloat16_represents_are_unchanged(value: float) -> None:
    exact = torch.full((4096,), value).bfloat16()
    assert torch.equal(stochastic_bfloat16(exact.float(), bits_of(4096)[0]), exact)


@pytest.mark.parametrize("value", [1.0 + 2**-7 / 4, -0.1, 3.14159e-5, -7e20, 1e-39])
@pytest.mark.parametrize("stream", range(STREAMS))
def test_the_mean_is_the_number(value: float, stream: int) -> None:
    """Every rounded value is one of the two neighbours, and their mean is within 5 standard errors of the number."""
    count = 1 << 17
    wide = torch.full((count,), value)
    rounded = stochastic_bfloat16(wide, bits_of(count)[stream]).double()
    low, high = float(rounded.min()), float(rounded.max())
    assert set(rounded.unique().tolist()) == {low, high}
    assert low < float(wide[0]) < high
    share = (float(wide[0].double()) - low) / (high - low)
    error = (share * (1 - share) / count) ** 0.5
    assert abs(float((rounded == high).double().mean()) - share) < 5 * error


def test_the_lower_half_is_the_number_of_integers_that_round_up() -> None:
    """Out of all 65,536 random integers, the number that round a value up equals the lower half of its bits."""
    every = torch.arange(1 << 16, dtype=torch.int32)
    for lower in (0, 1, 0x8000, 0xFFFF):
        value = torch.tensor(0x3F80_0000 + lower, dtype=torch.int32).view(torch.float32)
        rounded = stochastic_bfloat16(value.expand(1 << 16).contiguous(), every)
        assert int((rounded > 1.0).sum()) == lower


def test_non_finite_values_are_unchanged() -> None:
    values = torch.tensor([0x7F80_0000, -0x0080_0000, 0x7FC0_0000, 0x7FFF_FFFF, 0x7F80_0001, -1], dtype=torch.int32)
    rounded = stochastic_bfloat16(values.view(torch.float32), torch.full((6,), 0xFFFF, dtype=torch.int32))
    assert rounded[0] == torch.inf
    assert rounded[1] == -torch.inf
    assert rounded[2:].isnan().all()


def test_bits_depend_only_on_their_key() -> None:
    whole = bits_of(3 * BLOCK)
    bits_of(100, seed=4, step=9)
    assert torch.equal(bits_of(3 * BLOCK), whole)
    for start, count in ((0, 10), (BLOCK - 3, 7), (BLOCK, BLOCK), (17, 2 * BLOCK), (3 * BLOCK - 1, 1)):
        assert torch.equal(bits_of(count, start=start), whole[:, start : start + count])
    for key in ({"seed": 1}, {"step": 2}, {"weight": 1}):
        assert float((bits_of(BLOCK, **key) == whole[:, :BLOCK]).double().mean()) < 1e-3


def test_bits_are_uniform_and_sums_have_the_variance_of_independent_bits() -> None:
    """Neighbours, streams, weights and steps are uncorrelated.

    Blocks share a table, so sums over blocks could have too large a variance: 16 times as large if blocks were equal.
    """
    one = bits_of(BLOCK + 1)
    assert one.min() >= 0
    assert one.max() < 1 << 16
    rows = torch.stack([*one[:, :BLOCK], one[0, 1:], bits_of(BLOCK, step=2)[0]]).double()
    assert np.allclose(rows.mean(1), 2**15, rtol=0.01)
    assert float((torch.corrcoef(rows) - torch.eye(len(rows))).abs().max()) < 5 / BLOCK**0.5
    sums = torch.stack([(bits_of(16 * BLOCK, step=step)[0].double() - 2**15).sum() for step in range(48)])
    assert 0.3 < float(sums.square().mean()) / (16 * BLOCK * 2**32 / 12) < 2.5
