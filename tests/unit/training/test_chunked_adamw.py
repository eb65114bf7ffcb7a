"""AdamW on bfloat16 weights: small updates are not lost, and resuming is exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from steelyard.checkpoint.tensors import flatten, unflatten
from steelyard.errors import CheckpointError
from steelyard.training import chunked_adamw
from steelyard.training.optimisers import build_optimiser

NAMES = ("adamw", "adamw_fused", "adamw_8bit")
SHAPES = ((24, 256), (5, 7), (3,))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small chunks, so that a weight has several and the last one is shorter."""
    monkeypatch.setitem(chunked_adamw.CHUNKS, "cpu", 2560)


def weights(dtype: torch.dtype = torch.bfloat16, shapes: Sequence[tuple[int, ...]] = SHAPES) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator).bfloat16().to(dtype)) for shape in shapes]


def gradients(step: int, weight: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(weight.shape, generator=generator).bfloat16().to(weight.dtype)


def made(name: str, over: Sequence[nn.Parameter], **options: Any) -> torch.optim.Optimizer:
    if name == "adamw_8bit":
        pytest.importorskip("bitsandbytes")
    return build_optimiser(name, over, **{"lr": 1e-5, "seed": 3} | options)


def take(optimiser: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        for weight in optimiser.param_groups[0]["params"]:
            weight.grad = gradients(step, weight)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)


def copies(over: Sequence[nn.Parameter]) -> list[Tensor]:
    return [weight.detach().clone() for weight in over]


def moved(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    return float(torch.cat([(a != b).flatten() for a, b in zip(before, after, strict=True)]).double().mean())


def same(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_over_seeds_is_the_float32_step(name: str) -> None:
    """Project the mean change onto the float32 change, for steps of 1e-5 on weights of about 1.

    The expected value is 1 with a standard error of about 0.06; with rounding to nearest it would be near 0.
    """
    wide, seeds = weights(torch.float32, SHAPES[:1]), 16
    start = copies(wide)[0].double()
    take(made(name, wide), range(4))
    wanted = (wide[0].detach().double() - start).flatten()
    total = torch.zeros_like(wanted)
    for seed in range(seeds):
        own = weights(shapes=SHAPES[:1])
        take(made(name, own, seed=seed), range(4))
        total += (own[0].detach().double() - start).flatten()
    assert float(total @ wanted / seeds / (wanted @ wanted)) == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("name", NAMES)
def test_nearest_loses_what_stochastic_rounding_keeps(name: str) -> None:
    """After 100 equal steps of 1e-5 a weight of 1 should be 0.999; with rounding to nearest it stays at 1."""
    found: dict[str, float] = {}
    for rounding in ("stochastic", "nearest", "master"):
        weight = nn.Parameter(torch.ones(5120, dtype=torch.bfloat16))
        optimiser = made(name, [weight], rounding=rounding)
        for _ in range(100):
            weight.grad = torch.ones_like(weight)
            optimiser.step()
        found[rounding] = float(optimiser.state[weight].get("master", weight).detach().double().mean())
    assert found["nearest"] == 1.0
    assert found["stochastic"] == pytest.approx(0.999, abs=2e-4)
    assert found["master"] == pytest.approx(0.999, abs=1e-5)


def test_the_second_moment_decays() -> None:
    """In bfloat16 arithmetic, 0.999 v would round back to v."""
    weight = nn.Parameter(torch.ones(5120, dtype=torch.bfloat16))
    optimiser = made("adamw", [weight])
    for step in range(200):
        weight.grad = torch.full_like(weight, float(step == 0))
        optimiser.step()
    assert float(optimiser.state[weight]["exp_avg_sq"].double().mean()) == pytest.approx(1e-3 * 0.999**199, rel=0.02)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rounding", ["stochastic", "master"])
def test_the_chunk_size_does_not_change_the_result(name: str, rounding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = weights(), weights()
    take(made(name, one, rounding=rounding), range(3))
    monkeypatch.setitem(chunked_adamw.CHUNKS, "cpu", 1 << 16)
    take(made(name, other, rounding=rounding), range(3))
    assert same(one, other)


@pytest.mark.parametrize("name", NAMES)
def test_float32_weights_are_not_rounded(name: str) -> None:
    """Float32 weights get the same update with and without bfloat16 weights in the optimiser."""
    narrow, wide, alone = weights(), weights(torch.float32), weights(torch.float32)
    take(made(name, [*narrow, *wide]), range(3))
    take(made(name, alone), range(3))
    for one, other in zip(wide, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-7)
    assert type(made(name, alone)) is not chunked_adamw.ChunkedAdamW


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rounding", ["stochastic", "master"])
def test_resuming_is_exact(name: str, rounding: str) -> None:
    straight, first = weights(), weights()
    take(made(name, straight, rounding=rounding), range(6))
    before = made(name, first, rounding=rounding)
    take(before, range(3))
    saved = unflatten(*flatten(before.state_dict()))
    second = [nn.Parameter(weight.detach().clone()) for weight in first]
    after = made(name, second, rounding=rounding)
    after.load_state_dict(saved)
    take(after, range(3, 6))
    assert same(straight, second)


def test_a_checkpoint_of_the_torch_optimiser_can_be_loaded() -> None:
    """Runs that started with rounding to nearest have the same states."""
    own = weights()
    before = made("adamw", own, rounding="nearest")
    take(before, range(2))
    after = made("adamw", own)
    after.load_state_dict(before.state_dict())
    assert torch.equal(after.state[own[0]]["exp_avg"], before.state[own[0]]["exp_avg"])
    assert int(after.state[own[0]]["step"]) == 2


def test_a_checkpoint_of_another_optimiser_is_rejected() -> None:
    before = made("adamw", weights())
    take(before, range(1))
    with pytest.raises(CheckpointError, match=r"exp_avg.*master.*optimiser\.rounding"):
        made("adamw", weights(), rounding="master").load_state_dict(before.state_dict())


@pytest.mark.parametrize("name", NAMES)
def test_the_result_depends_on_the_seed(name: str) -> None:
    one, again, other = weights(), weights(), weights()
    take(made(name, one), range(2))
    take(made(name, again), range(2))
    take(made(name, other, seed=4), range(2))
    assert same(one, again)
    assert moved(one, other) > 0.001


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rounding", ["stochastic", "master"])
@pytest.mark.parametrize("size", [2, 3])
def test_sharded_weights_are_updated_like_whole_ones(name: str, rounding: str, size: int) -> None:
    """The results are bitwise equal, because the random bits belong to elements of the full weight."""
    shapes = ((24, 256), (5, 7))
    whole = weights(shapes=shapes)
    take(made(name, whole, rounding=rounding), range(3))
    parts: list[list[Tensor]] = [[] for _ in shapes]
    for rank in range(size):
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)
        try:
            mesh = init_device_mesh("cpu", (size,))
            divided = [nn.Parameter(part_of(weight, mesh)) for weight in weights(shapes=shapes)]
            optimiser = made(name, divided, rounding=rounding, grouped=True)
            for step in range(3):
                for weight, shape in zip(divided, shapes, strict=True):
                    weight.grad = part_of(gradients(step, torch.empty(shape, dtype=torch.bfloat16)), mesh)
                optimiser.step()
            for rows, weight in zip(parts, divided, strict=True):
                rows.append(chunked_adamw._local(weight).clone())
        finally:
            torch.distributed.destroy_process_group()
    assert same([torch.cat(rows) for rows in parts], whole)


def part_of(whole: Tensor, mesh: DeviceMesh) -> Any:
    """Return the rows of this rank, sharded as FSDP does."""
    rows = whole.detach().split(-(-whole.shape[0] // mesh.size()))
    rank = mesh.get_local_rank()
    own = rows[rank].clone() if rank < len(rows) else whole.detach()[:0]
    return DTensor.from_local(own, mesh, [Shard(0)], run_check=False, shape=whole.shape, stride=(whole.shape[1], 1))


@pytest.mark.parametrize("rounding", ["stochastic", "master"])
def test_initialising_the_states_does_not_change_the_weights(rounding: str) -> None:
    """When a rank loads a checkpoint, torch takes a step with zero gradients and a learning rate of 0."""
    model = nn.Linear(64, 8).bfloat16()
    before = copies(list(model.parameters()))
    optimiser = made("adamw", list(model.parameters()), rounding=rounding, weight_decay=0.1)
    get_optimizer_state_dict(model, optimiser)
    names = {"step", "exp_avg", "exp_avg_sq"} | ({"master"} if rounding == "master" else set())
    assert optimiser.state[model.weight].keys() == names
    assert same(before, list(model.parameters()))
