"""The flat layout: all samples (or decisions) of a batch in one tensor, with a label for what each belongs to."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor


def require_flat(**named: Tensor) -> None:
    """Require one-dimensional tensors of one length."""
    shapes = {name: tuple(tensor.shape) for name, tensor in named.items()}
    if any(len(shape) != 1 for shape in shapes.values()) or len(set(shapes.values())) != 1:
        listed = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise ValueError(f"expected flat tensors of one length, got {listed}")


def renumber(label_N: Tensor) -> tuple[Tensor, Tensor]:
    """Labels (any integers) renumbered 0, 1, ... in rising order, and how often each occurs."""
    _, index_N, count_M = cast(
        "tuple[Tensor, Tensor, Tensor]",
        torch.unique(label_N, return_inverse=True, return_counts=True),  # pyright: ignore[reportUnknownMemberType]
    )
    return index_N, count_M


def largest(size_N: Tensor) -> Tensor:
    """The maximum of sizes, 0 if there are none."""
    return size_N.max() if size_N.numel() else size_N.new_zeros(())
