"""A key/value cache with room to grow: a decoding step writes its columns instead of copying all that came before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer


@dataclass(slots=True)
class Columns:
    """Where the next forward pass writes, the same for every layer."""

    filled: int
    """Columns that hold something in at least one row."""
    end: int
    """The same after the pass."""
    dtype: torch.dtype
    place_BT: Tensor | None = None
    """Column of each token, row by row; None: all rows side by side, from ``filled`` to ``end``."""


class RoomyLayer(DynamicLayer):
    """Keys and values ``[B, heads, capacity, D]`` allocated once, of which the first ``columns.filled`` are in use."""

    keys: Tensor
    values: Tensor

    def __init__(self, filled: Any, row_B: Tensor, capacity: int, columns: Columns) -> None:
        super().__init__()
        self.columns = columns
        self._keys = self._spread(filled.keys, row_B, capacity)
        self._values = self._spread(filled.values, row_B, capacity)
        self.dtype, self.device, self.is_initialized = self._keys.dtype, self._keys.device, True
        self._expose(columns.filled)

    def _spread(self, filled: Tensor, row_B: Tensor, capacity: int) -> Tensor:
        _, heads, length, width = filled.shape
        room = filled.new_empty(len(row_B), heads, capacity, width)
        room[:, :, :length] = filled[row_B]
        return room

    def _expose(self, end: int) -> None:
        self.keys = self._keys[:, :, :end]
        self.values = self._values[:, :, :end]

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        start, end, place_BT = self.columns.filled, self.columns.end, self.columns.place_BT
        if place_BT is None:
            self._keys[:, :, start:end] = key_states
            self._values[:, :, start:end] = value_states
        else:
            for storage in (self._keys, self._values):
                storage[:, :, start:end] = 0  # no token sees what it does not write, but 0 times NaN is NaN
            row_B1 = torch.arange(len(place_BT), device=place_BT.device)[:, None]
            self._keys[row_B1, :, place_BT] = key_states.transpose(1, 2)
            self._values[row_B1, :, place_BT] = value_states.transpose(1, 2)
        self._expose(end)
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some rows, moved to the front of the same storage."""
        end = self.keys.shape[-2]
        for name in ("_keys", "_values"):
            storage: Tensor = getattr(self, name)
            storage[: len(indices), :, :end] = storage[indices, :, :end]
            setattr(self, name, storage[: len(indices)])
        self._expose(end)


def spread_prompts(prompts: Cache, row_B: Tensor, capacity: int) -> tuple[Cache, Columns | None]:
    """The cache of prompts, each computed once, handed out to the rows ``row_B`` that continue them.

    With it the columns it writes to next, or None where only the cache itself knows: sliding windows and the like keep
    their own layout.
    """
    if all(type(layer) is DynamicLayer for layer in prompts.layers):
        filled, first = prompts.get_seq_length(), cast("DynamicLayer", prompts.layers[0])
        columns = Columns(filled, filled, first.dtype)
        layers: list[Any] = [RoomyLayer(layer, row_B, capacity, columns) for layer in prompts.layers]
        return Cache(layers=layers), columns
    prompts.batch_select_indices(row_B)
    return prompts, None
