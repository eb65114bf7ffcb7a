"""A key/value cache with room to grow: a decoding step writes one column instead of copying all that came before."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer


class RoomyLayer(DynamicLayer):
    """Keys and values ``[B, heads, capacity, D]`` allocated once, of which the first ``length`` columns are filled."""

    keys: Tensor
    values: Tensor

    def __init__(self, filled: Any, row_B: Tensor, capacity: int) -> None:
        super().__init__()
        self.length = filled.keys.shape[-2]
        self._keys = self._spread(filled.keys, row_B, capacity)
        self._values = self._spread(filled.values, row_B, capacity)
        self.dtype, self.device, self.is_initialized = self._keys.dtype, self._keys.device, True
        self._expose()

    def _spread(self, filled: Tensor, row_B: Tensor, capacity: int) -> Tensor:
        _, heads, length, width = filled.shape
        room = filled.new_empty(len(row_B), heads, capacity, width)
        room[:, :, :length] = filled[row_B]
        return room

    def _expose(self) -> None:
        self.keys = self._keys[:, :, : self.length]
        self.values = self._values[:, :, : self.length]

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        end = self.length + key_states.shape[-2]
        self._keys[:, :, self.length : end] = key_states
        self._values[:, :, self.length : end] = value_states
        self.length = end
        self._expose()
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some rows, moved to the front of the same storage."""
        for name in ("_keys", "_values"):
            storage: Tensor = getattr(self, name)
            storage[: len(indices), :, : self.length] = storage[indices, :, : self.length]
            setattr(self, name, storage[: len(indices)])
        self._expose()


def spread_prompts(prompts: Cache, row_B: Tensor, capacity: int) -> Cache:
    """The cache of prompts, each computed once, handed out to the rows ``row_B`` that continue them."""
    if all(type(layer) is DynamicLayer for layer in prompts.layers):
        layers: list[Any] = [RoomyLayer(layer, row_B, capacity) for layer in prompts.layers]
        return Cache(layers=layers)
    prompts.batch_select_indices(row_B)  # sliding windows and the like keep their own layout
    return prompts
