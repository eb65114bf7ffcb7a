"""The cells filled by a structure, and the measurements used by briefs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from steelyard.domains.bricks.contacts import cells, contacts
from steelyard.domains.bricks.stability.physics import Load
from steelyard.domains.bricks.structure import Structure

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Solid:
    """The filled cells of a structure within its bounding box, which starts at the ground."""

    filled_XYZ: Bools
    x: int
    """Position of the box in the world."""
    y: int

    @property
    def shape(self) -> tuple[int, int, int]:
        x, y, z = self.filled_XYZ.shape
        return x, y, z

    @cached_property
    def top_XY(self) -> Ints:
        """Height of each column in layers, or 0 for an empty column."""
        from_above = np.argmax(self.filled_XYZ[:, :, ::-1], axis=2)
        return np.where(self.filled_XYZ.any(axis=2), self.shape[2] - from_above, 0)

    @cached_property
    def bottom_XY(self) -> Ints:
        """Lowest filled layer of each column, or the number of layers for an empty column."""
        return np.where(self.filled_XYZ.any(axis=2), np.argmax(self.filled_XYZ, axis=2), self.shape[2])

    def loads_on(self, columns: Iterable[tuple[int, int]], kilograms: float) -> tuple[Load, ...]:
        """Distribute a mass evenly over the tops of the given columns, skipping empty columns."""
        tops = [(x, y, int(self.top_XY[x, y])) for x, y in columns if self.top_XY[x, y] > 0]
        return tuple(Load(self.x + x, self.y + y, top - 1, kilograms / len(tops)) for x, y, top in tops)


def solid(structure: Structure) -> Solid:
    """Compute the filled cells of a structure with at least one brick."""
    _, x, y, z = cells(structure)
    left, front = int(x.min()), int(y.min())
    filled = np.zeros((int(x.max()) - left + 1, int(y.max()) - front + 1, int(z.max()) + 1), np.bool_)
    filled[x - left, y - front, z] = True
    return Solid(filled, left, front)


def ratio(one: float, other: float) -> float:
    """Return the ratio of the smaller to the larger number: 1 if they are equal, 0 if either is 0."""
    return min(one, other) / max(one, other) if one and other else 0.0


def middle(size: int) -> tuple[int, ...]:
    """Return the middle index of ``size`` positions, or both middle indices if ``size`` is even."""
    return tuple(range((size - 1) // 2, size // 2 + 1))


def iou(one_XYZ: Bools, other_XYZ: Bools) -> float:
    """Return the voxel IoU (intersection over union), maximised over horizontal shifts.

    The intersection for all shifts is a cross-correlation, computed with a Fourier transform and rounded.
    """
    layers = min(one_XYZ.shape[2], other_XYZ.shape[2])
    size = (one_XYZ.shape[0] + other_XYZ.shape[0] - 1, one_XYZ.shape[1] + other_XYZ.shape[1] - 1)
    one, other = (
        np.fft.rfft2(cells_XYZ[:, :, :layers].astype(np.float64), s=size, axes=(0, 1))
        for cells_XYZ in (one_XYZ, other_XYZ)
    )
    common_by_shift = np.fft.irfft2((one * other.conj()).sum(axis=2), s=size)
    common = round(float(common_by_shift.max()))
    return common / (int(one_XYZ.sum()) + int(other_XYZ.sum()) - common)


def height_iou(one_XY: Ints, other_XY: Ints) -> float:
    """Return Σ min / Σ max of two height maps aligned at a corner; maps are 0 beyond their edges."""
    size = np.maximum(one_XY.shape, other_XY.shape)
    one, other = (np.pad(heights, [(0, n) for n in size - heights.shape]) for heights in (one_XY, other_XY))
    return float(np.minimum(one, other).sum() / np.maximum(one, other).sum())


def largest_component(structure: Structure) -> float:
    """Return the share of cells in the largest connected component, ignoring the ground."""
    touching, bricks = contacts(structure), len(structure)
    joined = touching.lower_C < bricks
    upper, lower = touching.upper_C[joined], touching.lower_C[joined]
    component_B, before_B = np.arange(bricks), np.full(bricks, -1)
    while (component_B != before_B).any():
        before_B, least = component_B.copy(), np.minimum(component_B[upper], component_B[lower])
        np.minimum.at(component_B, upper, least)
        np.minimum.at(component_B, lower, least)
    cells_B = structure.array_B5[:, 0] * structure.array_B5[:, 1]
    return float(np.bincount(component_B, weights=cells_B).max() / cells_B.sum())
