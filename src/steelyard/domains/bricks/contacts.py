"""Contacts between bricks: cells that are stacked or side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.domains.bricks.structure import Structure

Index = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Contacts:
    """Touching pairs of cells as parallel arrays: axis ``C`` for vertical contacts, ``E`` for side-by-side contacts."""

    upper_C: Index
    lower_C: Index
    """Index of the brick below; the ground has the index ``len(structure)``."""
    x_C: Index
    y_C: Index
    before_E: Index
    """The neighbour with the smaller coordinate along the axis."""
    after_E: Index
    axis_E: Index
    """0 for neighbours along x, 1 for neighbours along y."""


def contacts(structure: Structure) -> Contacts:
    """Find all contacts on a grid around the structure."""
    bricks = len(structure)
    if not bricks:
        return Contacts(*(np.zeros(0, np.int32) for _ in range(7)))
    owner, x, y, z = cells(structure)
    i, j = x - x.min(), y - y.min()
    grid = np.full((int(i.max()) + 2, int(j.max()) + 2, int(z.max()) + 2), -1, np.int32)
    grid[:, :, 0] = bricks
    grid[i, j, z + 1] = owner
    below, along_x, along_y = grid[i, j, z], grid[i + 1, j, z + 1], grid[i, j + 1, z + 1]
    stacked = np.flatnonzero(below >= 0)
    side_x = np.flatnonzero((along_x >= 0) & (along_x != owner))
    side_y = np.flatnonzero((along_y >= 0) & (along_y != owner))
    return Contacts(
        owner[stacked],
        below[stacked],
        x[stacked],
        y[stacked],
        np.concatenate([owner[side_x], owner[side_y]]),
        np.concatenate([along_x[side_x], along_y[side_y]]),
        np.repeat(np.array([0, 1], np.int32), [len(side_x), len(side_y)]),
    )


def cells(structure: Structure) -> tuple[Index, Index, Index, Index]:
    """Return the brick index, x, y and z of every cell, brick by brick."""
    h, w, x, y, z = structure.array_B5.T
    size = h * w
    owner = np.repeat(np.arange(len(size), dtype=np.int32), size)
    within = np.arange(len(owner), dtype=np.int32) - np.repeat(np.cumsum(size, dtype=np.int32) - size, size)
    along_x, along_y = np.divmod(within, w[owner])
    return owner, x[owner] + along_x, y[owner] + along_y, z[owner]
