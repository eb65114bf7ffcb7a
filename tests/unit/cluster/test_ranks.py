"""How microbatches are assigned to ranks, how metrics are combined, and which states 8-bit AdamW keeps in 8 bits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from steelyard.training import shard_adamw
from steelyard.training.optimisers import build_optimiser
from steelyard.training.ranks import SINGLE_PROCESS, Ranks


def rank_of(rank: int, size: int) -> Ranks:
    ranks = Ranks()
    ranks.rank, ranks.size = rank, size
    return ranks


@given(count=st.integers(0, 40), size=st.integers(1, 9))
def test_every_microbatch_runs_once_and_all_ranks_take_equally_many_turns(count: int, size: int) -> None:
    turns = [rank_of(rank, size).turns(count) for rank in range(size)]
    assert len({len(turn) for turn in turns}) == 1
    assert sorted(place for turn in turns for place in turn if place is not None) == list(range(count))


def test_a_single_rank_runs_all_microbatches_in_order() -> None:
    assert SINGLE_PROCESS.turns(4) == [0, 1, 2, 3]


def test_metrics_of_all_ranks_are_joined_in_microbatch_order() -> None:
    """Two ranks share three microbatches; the idle turn of the second rank is omitted."""
    tables: list[Tensor] = []

    def parts(*values: float) -> list[dict[str, Tensor]]:
        return [{"loss": torch.tensor(value), "weight": torch.tensor(2 * value).double()} for value in values]

    def joined(rank: int, own: list[dict[str, Tensor]], others: Tensor | float) -> Any:
        ranks = rank_of(rank, 2)

        def add(table: Tensor) -> Tensor:
            tables.append(table)
            return table + others

        ranks.sum = add  # type: ignore[method-assign]
        return ranks.gather_metrics(ranks.turns(3), own, 3)

    joined(1, parts(0.2, 99.0), 0.0)
    found = joined(0, parts(0.1, 0.3), tables[0])
    assert [float(part["loss"]) for part in found] == [float(np.float32(value)) for value in (0.1, 0.2, 0.3)]
    assert [part["loss"].dtype for part in found] == [torch.float32] * 3
    assert [part["weight"].dtype for part in found] == [torch.float64] * 3


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((8, 256), 1), ((8, 512), 1), ((8, 64), 4), ((8, 576), 4), ((300,), 256), ((4, 2, 128), 1), ((8, 3), 256)],
)
def test_number_of_rows_that_fill_complete_blocks(shape: tuple[int, ...], rows: int) -> None:
    assert shard_adamw._rows_of_blocks(torch.empty(shape)) == rows
    assert rows * (torch.empty(shape).numel() // shape[0]) % shard_adamw.BLOCK == 0


def test_a_block_is_never_split_between_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks get 50 rows each of a 100 x 64 weight. A block has 4 rows, and 50 is not a multiple of 4."""
    monkeypatch.setattr(shard_adamw, "DTensor", SimpleNamespace)

    def weight(rows: int, width: int, ranks: int) -> Any:
        mesh = SimpleNamespace(size=lambda: ranks)
        return SimpleNamespace(shape=(rows, width), numel=lambda: rows * width, device_mesh=mesh)

    assert not shard_adamw.in_8_bits(weight(100, 64, 2))
    assert shard_adamw.in_8_bits(weight(100, 64, 1))
    assert shard_adamw.in_8_bits(weight(104, 64, 2))
    assert shard_adamw.in_8_bits(weight(103, 64, 2)), "the last rank's part may be short"
    assert not shard_adamw.in_8_bits(weight(8, 256, 2)), "small weights keep 32 bits"


def test_8_bit_steps_on_one_rank_equal_those_of_bitsandbytes() -> None:
    """The weights have full blocks, a partial last block, and too few values for 8 bits."""
    pytest.importorskip("bitsandbytes")
    shapes = [(64, 64), (67, 65), (8, 8)]
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator) for shape in shapes]
    gradients = [[torch.randn(shape, generator=generator) for shape in shapes] for _ in range(4)]
    ends: list[list[Tensor]] = []
    for grouped in (False, True):
        weights = [nn.Parameter(tensor.clone()) for tensor in start]
        optimiser = build_optimiser("adamw_8bit", weights, lr=1e-2, weight_decay=0.1, grouped=grouped)
        for number, step in enumerate(gradients):
            for group in optimiser.param_groups:
                group["lr"] = 1e-2 / (1 + number)
            for weight, gradient in zip(weights, step, strict=True):
                weight.grad = gradient.clone()
            optimiser.step()
        ends.append([weight.detach() for weight in weights])
    assert all(torch.equal(one, other) for one, other in zip(*ends, strict=True))
    assert not torch.equal(ends[0][0], start[0])
