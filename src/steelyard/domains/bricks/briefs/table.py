"""Tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from steelyard.domains.bricks.briefs.base import Brief, carrying, counted, grams
from steelyard.domains.bricks.briefs.solid import Solid, middle, ratio
from steelyard.domains.bricks.stability.physics import Load
from steelyard.domains.bricks.structure import Structure
from steelyard.domains.bricks.tiling import fewest


@dataclass(frozen=True)
class Table(Brief):
    """A top without holes in the uppermost layer, nothing beyond its edges, room below, and a load on its middle.

    The fulfilment is the product of: height found and wanted, the smaller over the larger; the IoU of top and wanted
    rectangle; and the share of the space below that is free over that wanted, at most 1.
    """

    kind: ClassVar[str] = "table"
    length: int
    width: int
    height: int
    """In layers, the top among them."""
    free: int
    """Of the space below the top, at least so many percent are free."""
    load: int
    """Grams."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.free > 100:
            raise ValueError(f"brief table: free = {self.free}; it is a percentage, at most 100")

    def sentence(self) -> str:
        return (
            f"a table exactly {self.height} layers tall whose top, without holes, is {self.length} studs along x by "
            f"{self.width} along y, with at least {self.free}% of the space below it free, carrying {self.load} g on "
            f"its middle"
        )

    def title(self) -> str:
        return (
            f"table of {self.length}×{self.width} studs, {counted(self.height, 'layer')} tall, {self.free}% free "
            f"below{carrying(self.load)}"
        )

    @property
    def difficulty(self) -> float:
        return float(fewest(self.length, self.width) + 2 * (self.height - 1))

    @property
    def extent(self) -> tuple[int, int, int]:
        return self.length, self.width, self.height

    @classmethod
    def grid(cls) -> Iterator[Self]:
        """Tops that parts can span from end to end, and room that supports at both ends leave."""
        numbers = itertools.product((4, 6, 8), range(1, 9), range(2, 9), (50, 60, 70), (50, 100, 200))
        for length, width, height, free, load in numbers:
            if 1 - 2 / length >= free / 100:
                yield cls(length, width, height, free, load)

    def _measure(self, structure: Structure, form: Solid) -> float:
        x, y, layers = form.shape
        either = x * y + self.length * self.width - min(x, self.length) * min(y, self.width)
        top = int(form.filled_XYZ[: self.length, : self.width, -1].sum()) / either
        free = 1.0 if layers == 1 else 1 - float(form.filled_XYZ[:, :, :-1].mean())
        return ratio(layers, self.height) * top * min(1.0, free / (self.free / 100))

    def _loads(self, form: Solid) -> tuple[Load, ...]:
        x, y, _ = form.shape
        return form.loads_on(itertools.product(middle(x), middle(y)), grams(self.load))
