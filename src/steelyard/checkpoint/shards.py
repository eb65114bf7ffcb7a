"""Sharded tensors: all ranks write their shards in parallel, and any number of ranks can read them.

This module uses ``torch.distributed.checkpoint`` with its safetensors storage. The default storage keeps its index in a
pickle (``.metadata``), which can run code when it is read. Here every rank writes one safetensors file, whose header
holds the position of each shard as JSON. Only tensors can be saved.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch.distributed
from torch import Tensor
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from steelyard.errors import CheckpointError


def save_shards(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Save this rank's shards. All ranks must call this with the same names and a folder on a shared disk."""
    with _single_process_is_fine():
        writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
        save(_at_least_1d(tensors), storage_writer=writer, no_dist=_alone())


def load_shards(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Fill the tensors in place; their sharding may differ from the one they were saved with."""
    wanted = _at_least_1d(tensors)
    reader = HuggingFaceStorageReader(str(folder))
    saved: dict[str, Any] = dict(reader.read_metadata().state_dict_metadata)
    wrong = sorted(saved.keys() ^ wanted.keys())
    wrong += [name for name in saved.keys() & wanted.keys() if tuple(saved[name].size) != tuple(wanted[name].shape)]
    wrong += [name for name in saved.keys() & wanted.keys() if saved[name].properties.dtype != wanted[name].dtype]
    if wrong:
        raise CheckpointError(
            f"{folder} does not match the learner: {len(wrong)} tensors differ, such as {', '.join(wrong[:5])}. Resume "
            "with the config of the run. With 8-bit AdamW, the number of ranks can change only if the rows of each "
            "weight also divide evenly among the new ranks"
        )
    with _single_process_is_fine():
        load(wanted, storage_reader=reader, no_dist=_alone())


def names_in(folder: Path) -> set[str]:
    """Return the names of the saved tensors."""
    return set(HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata)


def _at_least_1d(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """View scalars as vectors of one element, because the storage reads slices."""
    return {name: tensor.detach().view(1) if tensor.dim() == 0 else tensor.detach() for name, tensor in tensors.items()}


def _alone() -> bool:
    return not (torch.distributed.is_available() and torch.distributed.is_initialized())


@contextmanager
def _single_process_is_fine() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*single process.*")
        yield
