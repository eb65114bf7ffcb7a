"""Tables with free space below the top."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from steelyard.domains.bricks.briefs.base import Brief, carrying, kilograms
from steelyard.domains.bricks.briefs.solid import Solid, middle, ratio
from steelyard.domains.bricks.stability.physics import Load
from steelyard.domains.bricks.structure import Structure
from steelyard.domains.bricks.tiling import estimated_parts
from steelyard.text import with_unit


@dataclass(frozen=True)
class Table(Brief):
    """A solid top in the uppermost layer with free space below and a load on its centre.

    Fulfilment is a product: the ratio of the smaller to the larger of the actual and requested heights; the IoU of the
    top with the requested rectangle; and the ratio of the free share of the space below to the requested share, at most
    1.
    """

    kind: ClassVar[str] = "table"
    length: int
    width: int
    height: int
    """Height in layers, including the top."""
    free: int
    """Minimum percentage of the space below the top that must be free."""
    load: int
    """Load in grams."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.free > 100:
            raise ValueError(f"brief table: free = {self.free} must be a percentage of at most 100")

    def sentence(self) -> str:
        return (
            f"a table exactly {self.height} layers tall whose top, without holes, is {self.length} studs along x by "
            f"{self.width} along y, with at least {self.free}% of the space below it free, carrying {self.load} g on "
            f"its middle"
        )

    def title(self) -> str:
        return (
            f"table of {self.length}×{self.width} studs, {with_unit(self.height, 'layer')} tall, {self.free}% free "
            f"below{carrying(self.load)}"
        )

    @property
    def difficulty(self) -> float:
        return float(estimated_parts(self.length, self.width) + 2 * (self.height - 1))

    @property
    def extent(self) -> tuple[int, int, int]:
        return self.length, self.width, self.height

    @classmethod
    def grid(cls) -> Iterator[Self]:
        """Yield tables whose top single parts can span and whose free space leaves room for supports at both ends."""
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
        return form.loads_on(itertools.product(middle(x), middle(y)), kilograms(self.load))
