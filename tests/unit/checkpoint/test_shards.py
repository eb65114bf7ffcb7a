"""Shards written by one process, and rejected mismatches; tests/faults/test_learner_group.py uses more ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from steelyard.checkpoint.shards import load_shards, names_in, save_shards
from steelyard.errors import CheckpointError


def tensors() -> dict[str, torch.Tensor]:
    return {"a.weight": torch.randn(5, 3), "a.step": torch.tensor(7.0), "b": torch.arange(4, dtype=torch.uint8)}


def test_tensors_are_restored_in_place(tmp_path: Path) -> None:
    saved = tensors()
    save_shards(tmp_path, saved)
    filled = {name: torch.zeros_like(tensor) for name, tensor in saved.items()}
    load_shards(tmp_path, filled)
    assert all(torch.equal(filled[name], tensor) for name, tensor in saved.items())
    assert names_in(tmp_path) == saved.keys()


def test_only_safetensors_files_are_written(tmp_path: Path) -> None:
    save_shards(tmp_path, tensors())
    assert {path.suffix for path in tmp_path.iterdir()} == {".safetensors"}


@pytest.mark.parametrize("change", ["missing", "more", "shape", "dtype"])
def test_a_mismatch_is_an_error_that_names_the_tensor(tmp_path: Path, change: str) -> None:
    save_shards(tmp_path, tensors())
    wanted = tensors()
    if change == "missing":
        del wanted["b"]
    elif change == "more":
        wanted["c"] = torch.zeros(1)
    else:
        wanted["b"] = torch.zeros(3, dtype=torch.uint8) if change == "shape" else torch.zeros(4)
    with pytest.raises(CheckpointError, match="c" if change == "more" else "b"):
        load_shards(tmp_path, wanted)
