"""Tensors divided among ranks, written by all of them at once and read by any number of ranks.

This is ``torch.distributed.checkpoint`` with its safetensors storage. Its usual storage keeps the table of contents as
a pickle (``.metadata``), which can run code when it is read. Here every rank writes one safetensors file, and where
each piece belongs stands as JSON in the header of its file. Only tensors are taken.
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
    """Every rank calls this with its part of the same tensors; the folder must be on a disk that all of them see."""
    with _single_process_is_fine():
        writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
        save(_at_least_1d(tensors), storage_writer=writer, no_dist=_alone())


def load_shards(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Fill the tensors in place; they may be divided otherwise than they were when they were saved."""
    wanted = _at_least_1d(tensors)
    reader = HuggingFaceStorageReader(str(folder))
    saved: dict[str, Any] = dict(reader.read_metadata().state_dict_metadata)
    wrong = sorted(saved.keys() ^ wanted.keys())
    wrong += [name for name in saved.keys() & wanted.keys() if tuple(saved[name].size) != tuple(wanted[name].shape)]
    wrong += [name for name in saved.keys() & wanted.keys() if saved[name].properties.dtype != wanted[name].dtype]
    if wrong:
        raise CheckpointError(
            f"{folder} does not fit: {', '.join(wrong[:5])} (of {len(wrong)}). Resume with the run's own config; 8-bit "
            "states of a weight fit another number of ranks only if its rows divide evenly there too"
        )
    with _single_process_is_fine():
        load(wanted, storage_reader=reader, no_dist=_alone())


def names_in(folder: Path) -> set[str]:
    """Names of the tensors that were saved."""
    return set(HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata)


def _at_least_1d(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Numbers as vectors of one, in the same memory: slices are read, and a number has none."""
    return {name: tensor.detach().view(1) if tensor.dim() == 0 else tensor.detach() for name, tensor in tensors.items()}


def _alone() -> bool:
    return not (torch.distributed.is_available() and torch.distributed.is_initialized())


@contextmanager
def _single_process_is_fine() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*single process.*")
        yield
