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
    dtype: torch.dtype
    rows: slice = field(default_factory=lambda: slice(None))
    """Rows that take part in the pass; the other rows stay unchanged."""
    end: int = 0
    """Number of columns in use after the pass, in the rows that take part in it."""
    place_BT: Tensor | None = None
    """Column of each token in each row; None: all rows write columns ``filled`` to ``end``."""

    def next_pass(self, rows: slice, end: int, place_BT: Tensor | None = None) -> None:
        self.rows, self.end, self.place_BT = rows, end, place_BT


class PreallocatedLayer(DynamicLayer):
    """Keys and values ``[R, heads, capacity, D]``, allocated once; the first ``columns.filled`` columns are in use.

    Entries that were never written are zero: attention masks them, but 0 * NaN is NaN.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, filled: Any, row_B: Tensor, capacity: int, columns: Columns) -> None:
        super().__init__()
        self.columns = columns
        self._keys = self._expanded(filled.keys, row_B, capacity)
        self._values = self._expanded(filled.values, row_B, capacity)
        self.keys, self.values = self._keys, self._values
        self.dtype, self.device, self.is_initialized = self._keys.dtype, self._keys.device, True

    def _expanded(self, filled: Tensor, row_B: Tensor, capacity: int) -> Tensor:
        _, heads, length, width = filled.shape
        room = filled.new_zeros(len(row_B), heads, capacity, width)
        room[:, :, :length] = filled[row_B]
        return room

    def get_seq_length(self) -> int:
        return self.columns.filled

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        rows, start, end, place_BT = self.columns.rows, self.columns.filled, self.columns.end, self.columns.place_BT
        if place_BT is None:
            self._keys[rows, :, start:end] = key_states
            self._values[rows, :, start:end] = value_states
        else:
            row_B1 = torch.arange(len(place_BT), device=place_BT.device)[:, None]
            self._keys[rows][row_B1, :, place_BT] = key_states.transpose(1, 2)
            self._values[rows][row_B1, :, place_BT] = value_states.transpose(1, 2)
        self.keys, self.values = self._keys[rows, :, :end], self._values[rows, :, :end]
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep only the given rows, moved to the front of the same storage."""
        end = self.columns.filled
        for name in ("_keys", "_values"):
            storage: Tensor = getattr(self, name)
            storage[: len(indices), :, :end] = storage[indices, :, :end]
            setattr(self, name, storage[: len(indices)])

    def swap(self, a: int, b: int) -> None:
        """Exchange two rows."""
        end = self.columns.filled
        for storage in (self._keys, self._values):
            storage[[a, b], :, :end] = storage[[b, a], :, :end]

    def copy_row(self, source: int, target: int, columns: int) -> None:
        """Copy the first ``columns`` columns of one row to another."""
        for storage in (self._keys, self._values):
            storage[target, :, :columns] = storage[source, :, :columns]

    def grow(self, capacity: int) -> None:
        """Make room for more columns."""
        for name in ("_keys", "_values"):
            storage: Tensor = getattr(self, name)
            rows, heads, columns, width = storage.shape
            room = storage.new_zeros(rows, heads, capacity, width)
            room[:, :, :columns] = storage
            setattr(self, name, room)


def spread_prompts(prompts: Cache, row_B: Tensor, capacity: int) -> tuple[Cache, Columns | None]:
    """Copy the cache of each prompt to the rows ``row_B`` that continue it.

    Return the cache and its columns; the columns are None if the cache has its own layout, such as a sliding window.
    """
    if all(type(layer) is DynamicLayer for layer in prompts.layers):
        filled, first = prompts.get_seq_length(), cast("DynamicLayer", prompts.layers[0])
        columns = Columns(filled, first.dtype)
        layers: list[Any] = [PreallocatedLayer(layer, row_B, capacity, columns) for layer in prompts.layers]
        return Cache(layers=layers), columns
    prompts.batch_select_indices(row_B)
    return prompts, None
