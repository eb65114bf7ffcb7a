"""A preallocated KV cache: a decoding step writes its own columns instead of copying the cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer


@dataclass(slots=True)
class Columns:
    """The columns that the next forward pass writes, shared by all layers."""

    filled: int
    """Number of columns in use in at least one row."""
    end: int
    """The number of columns in use after the pass."""
    dtype: torch.dtype
    place_BT: Tensor | None = None
    """Column of each token in each row; None: all rows write columns ``filled`` to ``end``."""
    rows: slice = field(default_factory=lambda: slice(None))
    """Rows of the pass; the others keep what they hold."""


class PreallocatedLayer(DynamicLayer):
    """Keys and values ``[R, heads, capacity, D]``, allocated once; the first ``columns.filled`` columns are in use."""

    keys: Tensor
    values: Tensor

    def __init__(self, filled: Any, row_B: Tensor, capacity: int, columns: Columns) -> None:
        super().__init__()
        self.columns = columns
        self._keys = self._expanded(filled.keys, row_B, capacity)
        self._values = self._expanded(filled.values, row_B, capacity)
        self.dtype, self.device, self.is_initialized = self._keys.dtype, self._keys.device, True
        self._expose(columns.filled)

    def _expanded(self, filled: Tensor, row_B: Tensor, capacity: int) -> Tensor:
        _, heads, length, width = filled.shape
        room = filled.new_zeros(len(row_B), heads, capacity, width)
        room[:, :, :length] = filled[row_B]
        return room

    def _expose(self, end: int) -> None:
        self.keys = self._keys[self.columns.rows, :, :end]
        self.values = self._values[self.columns.rows, :, :end]

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        start, end, place_BT, rows = self.columns.filled, self.columns.end, self.columns.place_BT, self.columns.rows
        if place_BT is None:
            self._keys[rows, :, start:end] = key_states
            self._values[rows, :, start:end] = value_states
        else:
            for storage in (self._keys, self._values):
                storage[:, :, start:end] = 0  # unwritten entries are masked, but 0 * NaN is NaN
            row_B1 = torch.arange(len(place_BT), device=place_BT.device)[:, None]
            self._keys[rows][row_B1, :, place_BT] = key_states.transpose(1, 2)
            self._values[rows][row_B1, :, place_BT] = value_states.transpose(1, 2)
        self._expose(end)
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep only the given rows, moved to the front of the same storage."""
        end = self.keys.shape[-2]
        for name in ("_keys", "_values"):
            storage: Tensor = getattr(self, name)
            storage[: len(indices), :, :end] = storage[indices, :, :end]
            setattr(self, name, storage[: len(indices)])
        self._expose(end)

    def swap(self, a: int, b: int) -> None:
        """Exchange two rows."""
        for storage in (self._keys, self._values):
            storage[[a, b]] = storage[[b, a]]

    def grow(self, capacity: int) -> None:
        """Make room for more columns."""
        for name in ("_keys", "_values"):
            storage: Tensor = getattr(self, name)
            rows, heads, columns, width = storage.shape
            room = storage.new_zeros(rows, heads, capacity, width)
            room[:, :, :columns] = storage
            setattr(self, name, room)
        self._expose(self.keys.shape[-2])


def spread_prompts(prompts: Cache, row_B: Tensor, capacity: int) -> tuple[Cache, Columns | None]:
    """Copy the cache of each prompt to the rows ``row_B`` that continue it.

    Return the cache and its columns; the columns are None if the cache has its own layout, such as a sliding window.
    """
    if all(type(layer) is DynamicLayer for layer in prompts.layers):
        filled, first = prompts.get_seq_length(), cast("DynamicLayer", prompts.layers[0])
        columns = Columns(filled, filled, first.dtype)
        layers: list[Any] = [PreallocatedLayer(layer, row_B, capacity, columns) for layer in prompts.layers]
        return Cache(layers=layers), columns
    prompts.batch_select_indices(row_B)
    return prompts, None
