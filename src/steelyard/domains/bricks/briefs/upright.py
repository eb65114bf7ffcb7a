"""Towers and walls."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from steelyard.domains.bricks.briefs.base import Brief
from steelyard.domains.bricks.briefs.solid import Bools, Solid, iou, largest_component
from steelyard.domains.bricks.structure import Structure
from steelyard.domains.bricks.tiling import estimated_parts
from steelyard.text import with_unit


class Upright(Brief):
    """Base class of briefs that request a block of layers."""

    height: int
    length: int
    width: int

    @property
    def difficulty(self) -> float:
        return float(self.height * estimated_parts(self.length, self.width))

    @property
    def extent(self) -> tuple[int, int, int]:
        return self.length, self.width, self.height


@dataclass(frozen=True)
class Tower(Upright):
    """A tower with an exact number of layers, each of which spans the footprint: its outermost cells touch all four
    sides, and no cell lies outside. Fulfilment is the mean over layers of the IoU of the layer's bounding rectangle
    with the footprint.
    """

    kind: ClassVar[str] = "tower"
    height: int
    length: int
    width: int

    def sentence(self) -> str:
        return (
            f"a tower exactly {self.height} layers tall, each layer spanning a footprint of {self.length} studs along "
            f"x by {self.width} along y"
        )

    def title(self) -> str:
        return f"tower {with_unit(self.height, 'layer')} tall, {self.length}×{self.width} studs"

    @classmethod
    def grid(cls) -> Iterator[Self]:
        for height, length, width in itertools.product(range(2, 11), range(1, 9), range(1, 9)):
            yield cls(height, length, width)

    def _measure(self, structure: Structure, form: Solid) -> float:
        layers = form.shape[2]
        found = [
            _span_iou(form.filled_XYZ[:, :, layer], self.length, self.width)
            for layer in range(min(layers, self.height))
        ]
        return sum(found) / max(layers, self.height)


@dataclass(frozen=True)
class Wall(Upright):
    """A solid block in masonry bond, connected even without the ground. Fulfilment is the voxel IoU with the block
    times the share of cells in the largest connected component.
    """

    kind: ClassVar[str] = "wall"
    length: int
    width: int
    height: int

    def sentence(self) -> str:
        return (
            f"a solid wall {self.length} studs long along x, {self.width} thick and {self.height} layers tall, its "
            f"joints staggered so that it holds together in one piece"
        )

    def title(self) -> str:
        return f"wall {with_unit(self.length, 'stud')} long, {self.width} thick, {with_unit(self.height, 'layer')} tall"

    @classmethod
    def grid(cls) -> Iterator[Self]:
        for length, width, height in itertools.product(range(3, 17), range(1, 3), range(2, 11)):
            yield cls(length, width, height)

    def _measure(self, structure: Structure, form: Solid) -> float:
        return iou(form.filled_XYZ, np.ones(self.extent, np.bool_)) * largest_component(structure)


def _span_iou(layer_XY: Bools, length: int, width: int) -> float:
    """Return the IoU of a layer's bounding rectangle with the footprint, which starts at the corner of the box."""
    along_x, along_y = np.flatnonzero(layer_XY.any(axis=1)), np.flatnonzero(layer_XY.any(axis=0))
    if not len(along_x):
        return 0.0
    left, right, front, back = int(along_x[0]), int(along_x[-1]) + 1, int(along_y[0]), int(along_y[-1]) + 1
    common = max(0, min(right, length) - left) * max(0, min(back, width) - front)
    return common / ((right - left) * (back - front) + length * width - common)
