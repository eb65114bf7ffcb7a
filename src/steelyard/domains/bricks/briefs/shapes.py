"""Target shapes: a row of blocks with different heights."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from steelyard.domains.bricks.briefs.base import Brief, require_integer
from steelyard.domains.bricks.briefs.solid import Bools, Solid, iou
from steelyard.domains.bricks.structure import Structure
from steelyard.domains.bricks.tiling import estimated_parts
from steelyard.text import with_unit

BLOCK = 2
"""Width of a block along x, in cells."""


@dataclass(frozen=True)
class Shape(Brief):
    """A silhouette in x and z, extruded along y. Fulfilment is the voxel IoU; 0.8 is enough."""

    kind: ClassVar[str] = "shape"
    enough: ClassVar[float] = 0.8
    depth: int
    """Size along y, in cells."""
    heights: tuple[int, ...]
    """Height of each block, in layers."""

    def __post_init__(self) -> None:
        given: Any = self.heights
        object.__setattr__(self, "heights", tuple(given))
        require_integer(self.kind, "depth", self.depth)
        for height in self.heights:
            require_integer(self.kind, "heights", height)
        if not self.heights:
            raise ValueError("brief shape: heights is empty; pass at least one height")

    @property
    def values(self) -> tuple[int, ...]:
        return (self.depth, *self.heights)

    def words(self) -> tuple[str, ...]:
        blocks = (f"block{number}={height}" for number, height in enumerate(self.heights, 1))
        return (self.kind, f"depth={self.depth}", *blocks)

    def sentence(self) -> str:
        shown = ", ".join(map(str, self.heights))
        return (
            f"a solid shape {self.depth} studs deep along y whose heights in layers, one for every {BLOCK} studs along "
            f"x, are {shown}"
        )

    def title(self) -> str:
        return f"shape {with_unit(self.depth, 'stud')} deep, heights {', '.join(map(str, self.heights))}"

    @property
    def difficulty(self) -> float:
        return float(sum(estimated_parts(BLOCK * blocks, self.depth) for _, _, blocks in self.runs()))

    @property
    def extent(self) -> tuple[int, int, int]:
        return BLOCK * len(self.heights), self.depth, max(self.heights)

    @classmethod
    def grid(cls) -> Iterator[Self]:
        for depth, blocks in itertools.product((1, 2), (2, 3, 4)):
            for heights in itertools.product(range(1, 5), repeat=blocks):
                yield cls(depth, heights)

    def target(self) -> Bools:
        """Return the requested cells."""
        height_X = np.repeat(self.heights, BLOCK)
        filled_XZ = np.arange(max(self.heights)) < height_X[:, None]
        return np.repeat(filled_XZ[:, None, :], self.depth, axis=1)

    def runs(self) -> list[tuple[int, int, int]]:
        """Return (layer, first block, number of blocks) for each run of adjacent blocks, from the bottom up."""
        found: list[tuple[int, int, int]] = []
        for layer in range(max(self.heights)):
            reaches = [height > layer for height in self.heights]
            for there, run in itertools.groupby(range(len(reaches)), reaches.__getitem__):
                blocks = list(run)
                if there:
                    found.append((layer, blocks[0], len(blocks)))
        return found

    def _measure(self, structure: Structure, form: Solid) -> float:
        return iou(form.filled_XYZ, self.target())
