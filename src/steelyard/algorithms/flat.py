"""The flat layout: one entry per sample or decision of a batch, with a label for the group or sample it belongs to."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor


def require_flat(**named: Tensor) -> None:
    """Raise an error unless all tensors are one-dimensional and have the same length."""
    shapes = {name: tuple(tensor.shape) for name, tensor in named.items()}
    if any(len(shape) != 1 for shape in shapes.values()) or len(set(shapes.values())) != 1:
        listed = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise ValueError(f"expected one-dimensional tensors of equal length, got {listed}")


def renumber(label_N: Tensor) -> tuple[Tensor, Tensor]:
    """Map integer labels to 0, 1, ... in ascending order. Return the new labels and the count of each."""
    _, index_N, count_M = cast(
        "tuple[Tensor, Tensor, Tensor]",
        torch.unique(label_N, return_inverse=True, return_counts=True),  # pyright: ignore[reportUnknownMemberType]
    )
    return index_N, count_M


def max_or_zero(value_N: Tensor) -> Tensor:
    """Return the maximum, or 0 for an empty tensor."""
    return value_N.max() if value_N.numel() else value_N.new_zeros(())
