"""State dicts survive a round trip to disk bit for bit, without pickle, and training continues identically."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from steelyard.checkpoint import flatten, load_tree, save_tree, unflatten
from steelyard.checkpoint.tensors import from_json, to_json
from steelyard.errors import CheckpointError


def adamw(parameters: list[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-2)


def fused_adamw(parameters: list[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-2, fused=True)


def adamw_8bit(parameters: list[Tensor]) -> torch.optim.Optimizer:
    bitsandbytes = pytest.importorskip("bitsandbytes")
    return bitsandbytes.optim.AdamW8bit(parameters, lr=1e-2)


def initial_parameters(dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(96, 64), (64, 96), (5,)]  # bitsandbytes keeps tensors with fewer than 4096 elements in 32 bits
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


def take_steps(parameters: list[Tensor], optimiser: torch.optim.Optimizer, first: int, last: int) -> None:
    for step in range(first, last):
        generator = torch.Generator().manual_seed(100 + step)
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
        optimiser.step()


def same_bits(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and a.shape == b.shape and _bytes(a) == _bytes(b)
    if isinstance(a, dict):
        return type(b) is dict and list(a) == list(b) and all(same_bits(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same_bits, a, b))
    if isinstance(a, float):
        if math.isnan(a):
            return isinstance(b, float) and math.isnan(b)
        return isinstance(b, float) and struct.pack("d", a) == struct.pack("d", b)
    return type(a) is type(b) and a == b


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("make", [adamw, fused_adamw, adamw_8bit])
def test_three_steps_a_round_trip_and_three_more_equal_six_steps(
    make: Callable[[list[Tensor]], torch.optim.Optimizer], dtype: torch.dtype, tmp_path: Path
) -> None:
    uninterrupted = initial_parameters(dtype)
    optimiser = make(uninterrupted)
    take_steps(uninterrupted, optimiser, 0, 6)

    before = initial_parameters(dtype)
    stopped = make(before)
    take_steps(before, stopped, 0, 3)
    save_tree(tmp_path / "optimiser.safetensors", stopped.state_dict())

    after = [parameter.detach().clone().requires_grad_() for parameter in before]
    resumed = make(after)
    loaded = load_tree(tmp_path / "optimiser.safetensors")
    assert same_bits(loaded, stopped.state_dict())
    resumed.load_state_dict(loaded)
    take_steps(after, resumed, 3, 6)

    assert same_bits(after, uninterrupted)
    assert same_bits(resumed.state_dict(), optimiser.state_dict())


def test_the_optimiser_state_matters_for_the_continuation() -> None:
    """Control for the test above: with a fresh optimiser, the last three steps give a different result."""
    uninterrupted, restarted = initial_parameters(torch.float32), initial_parameters(torch.float32)
    take_steps(uninterrupted, adamw(uninterrupted), 0, 6)
    take_steps(restarted, adamw(restarted), 0, 3)
    take_steps(restarted, adamw(restarted), 3, 6)
    assert not same_bits(uninterrupted, restarted)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text(max_size=5)
    | st.sampled_from([torch.float64, torch.bfloat16, torch.uint8, torch.bool, torch.int64]).map(
        lambda dtype: torch.arange(3).to(dtype)
    )
)
KEYS = st.text(max_size=4) | st.integers(-3, 3) | st.sampled_from(["$tensor", "$float", "$items", "a.b", "a"])
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.property
@given(tree=TREES)
@settings(max_examples=150)
def test_any_tree_survives_the_round_trip(tree: Any) -> None:
    tensors, skeleton = flatten(tree)
    text = json.dumps(skeleton, allow_nan=False)
    assert same_bits(unflatten(tensors, json.loads(text)), tree)


def test_paths_with_the_same_text_stay_distinct() -> None:
    tree = {"a.b": torch.zeros(1), "a": {"b": torch.ones(1)}, 0: torch.full((1,), 2.0), "0": torch.full((1,), 3.0)}
    tensors, skeleton = flatten(tree)
    assert len(tensors) == 4
    assert same_bits(unflatten(tensors, skeleton), tree)


def test_a_shared_tensor_is_stored_once_and_stays_shared(tmp_path: Path) -> None:
    shared = torch.arange(1000.0)
    save_tree(tmp_path / "a.safetensors", {"x": shared, "y": {"z": shared}})
    assert (tmp_path / "a.safetensors").stat().st_size < 2 * shared.nbytes
    loaded = load_tree(tmp_path / "a.safetensors")
    loaded["x"][0] = 7.0
    assert loaded["y"]["z"][0] == 7.0


def test_views_and_odd_layouts_are_saved_by_value(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    tree = {
        "whole": base,
        "row": base[1],
        "turned": base.T,
        "scalar": torch.tensor(3),
        "empty": torch.zeros(0, 2),
        "leaf": torch.nn.Parameter(torch.ones(2)),
    }
    save_tree(tmp_path / "a.safetensors", tree)
    loaded = load_tree(tmp_path / "a.safetensors")
    assert all(torch.equal(loaded[name], tree[name]) for name in tree)
    loaded["whole"][1] = -1.0
    assert torch.equal(loaded["row"], base[1])
    assert not loaded["leaf"].requires_grad


def test_loaded_tensors_do_not_depend_on_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_tree(path, {"x": torch.arange(4096.0)})
    loaded = load_tree(path)
    with path.open("r+b") as file:
        file.seek(-4096, 2)
        file.write(b"\xff" * 4096)
    assert torch.equal(loaded["x"], torch.arange(4096.0))


def test_a_plain_safetensors_file_is_read_as_a_flat_dict(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"w": torch.ones(2)}, tmp_path / "a.safetensors")
    assert same_bits(load_tree(tmp_path / "a.safetensors"), {"w": torch.ones(2)})


def test_values_that_need_pickle_are_rejected_by_name() -> None:
    with pytest.raises(CheckpointError, match=r"param_groups\.0\.hook is a builtins\.function"):
        flatten({"param_groups": [{"hook": lambda: None}]})
    with pytest.raises(CheckpointError, match=r"key 1\.5"):
        flatten({1.5: 0})


def test_an_unreadable_file_is_a_checkpoint_error(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"garbage")
    with pytest.raises(CheckpointError, match=r"a\.safetensors"):
        load_tree(tmp_path / "a.safetensors")


def test_json_state_stays_readable_and_lossless() -> None:
    state = {"step": 3, "best": -math.inf, "pair": (1, 2.5), 7: "seven", "nested": {"list": [1, None, True]}}
    text = to_json(state, what="state.json")
    assert same_bits(from_json(text), state)
    assert json.loads(to_json({"step": 3, "rates": [0.1, 1e-30]}, what="x")) == {"step": 3, "rates": [0.1, 1e-30]}
    with pytest.raises(CheckpointError, match=r"state\.json: source\.cursor is a tensor"):
        to_json({"source": {"cursor": torch.zeros(1)}}, what="state.json")
