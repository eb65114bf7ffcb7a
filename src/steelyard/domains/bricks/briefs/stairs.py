"""Stairs along x."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from steelyard.domains.bricks.briefs.base import Brief
from steelyard.domains.bricks.briefs.solid import Ints, Solid, height_iou
from steelyard.domains.bricks.structure import Structure
from steelyard.domains.bricks.tiling import estimated_parts
from steelyard.text import with_unit


@dataclass(frozen=True)
class Stairs(Brief):
    """Steps that rise along x by one layer each.

    Only the surface counts: fulfilment is Σ min / Σ max of the requested and actual heights. The space below may be
    filled or free.
    """

    kind: ClassVar[str] = "stairs"
    steps: int
    tread: int
    """Length of each step."""
    width: int

    def sentence(self) -> str:
        return (
            f"stairs of {self.steps} steps rising along x, the first 1 layer high and each next one a layer higher, "
            f"every step {self.tread} studs long and {self.width} wide"
        )

    def title(self) -> str:
        return (
            f"stairs of {with_unit(self.steps, 'step')}, each {with_unit(self.tread, 'stud')} long, {self.width} wide"
        )

    @property
    def difficulty(self) -> float:
        return float(self.steps * estimated_parts(2 * self.tread, self.width))

    @property
    def extent(self) -> tuple[int, int, int]:
        return self.steps * self.tread, self.width, self.steps

    @classmethod
    def grid(cls) -> Iterator[Self]:
        for steps, tread, width in itertools.product(range(2, 10), range(1, 5), range(1, 9)):
            yield cls(steps, tread, width)

    def surface(self) -> Ints:
        """Return the requested height of each column."""
        height_X = np.repeat(np.arange(1, self.steps + 1), self.tread)
        return np.repeat(height_X[:, None], self.width, axis=1)

    def _measure(self, structure: Structure, form: Solid) -> float:
        return height_iou(form.top_XY, self.surface())
