"""Bridges and cantilevers: structures that carry a load over free space."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from steelyard.domains.bricks.briefs.base import Brief, carrying, kilograms
from steelyard.domains.bricks.briefs.solid import Solid, middle, ratio
from steelyard.domains.bricks.parts import STANDARD
from steelyard.domains.bricks.stability.physics import Load
from steelyard.domains.bricks.structure import Structure
from steelyard.domains.bricks.tiling import estimated_parts, lengths
from steelyard.text import with_unit

PIER = 4
"""Maximum pier length for a simple bridge."""
LONGEST_SINGLE = 6
"""Largest gap that a single part can span."""


class Span(NamedTuple):
    """A range of columns along x, from ``start`` up to ``stop``, without contact with the ground."""

    start: int
    stop: int
    ends: int
    """Number of sides, 0 to 2, on which the structure reaches the ground again."""


@dataclass(frozen=True)
class Bridge(Brief):
    """A deck along x over a gap between two piers, with a load at mid-span.

    The fulfilment of a span is a product: for gap, clearance and width, the ratio of the smaller to the larger of the
    actual and requested values; the covered share of the gap; and 1/2 if only one side has a pier. Only the best span
    counts.
    """

    kind: ClassVar[str] = "bridge"
    gap: int
    clearance: int
    """Number of free layers below the deck."""
    width: int
    load: int
    """Load in grams."""

    def sentence(self) -> str:
        return (
            f"a bridge along x, {self.width} studs wide, over a gap of exactly {self.gap} studs between its two piers, "
            f"with exactly {self.clearance} free layers below the deck, carrying {self.load} g at mid-span"
        )

    def title(self) -> str:
        return (
            f"bridge over {with_unit(self.gap, 'stud')}, {with_unit(self.clearance, 'layer')} clear, {self.width} wide"
            f"{carrying(self.load)}"
        )

    @property
    def difficulty(self) -> float:
        deck = self.width * (1 if self.gap <= LONGEST_SINGLE else 3)
        return float(2 * self.clearance + deck)

    @property
    def extent(self) -> tuple[int, int, int]:
        return self.gap + 2 * PIER, self.width, self.clearance + 2

    @classmethod
    def grid(cls) -> Iterator[Self]:
        for numbers in itertools.product(range(2, 11), range(1, 7), range(1, 5), (50, 100, 200)):
            yield cls(*numbers)

    def _measure(self, structure: Structure, form: Solid) -> float:
        return max((self._span_fulfilment(form, span) for span in spans(form)), default=0.0)

    def _loads(self, form: Solid) -> tuple[Load, ...]:
        found = spans(form)
        if not found:
            return ()
        best = max(found, key=lambda span: self._span_fulfilment(form, span))
        columns = [best.start + offset for offset in middle(best.stop - best.start)]
        return form.loads_on(itertools.product(columns, middle(form.shape[1])), kilograms(self.load))

    def _span_fulfilment(self, form: Solid, span: Span) -> float:
        below_XY = form.bottom_XY[span.start : span.stop]
        match = (
            ratio(span.stop - span.start, self.gap)
            * ratio(int(below_XY.min()), self.clearance)
            * ratio(form.shape[1], self.width)
        )
        covered = float((below_XY < form.shape[2]).mean())
        return match * covered * span.ends / 2


@dataclass(frozen=True)
class Cantilever(Brief):
    """An arm that extends along x beyond a base, with free space below and a load on its tip.

    Fulfilment is a product: for reach and height, the ratio of the smaller to the larger of the actual and requested
    values; the ratio of the requested to the actual base length, at most 1; and the share of the reach covered by the
    arm.
    """

    kind: ClassVar[str] = "cantilever"
    reach: int
    height: int
    """Number of free layers below the arm."""
    base: int
    """Maximum length of the base on the ground."""
    load: int
    """Load in grams."""

    def sentence(self) -> str:
        return (
            f"a cantilever: a base at most {self.base} studs long along x, and an arm reaching exactly {self.reach} "
            f"studs beyond it towards larger x, with exactly {self.height} free layers below, carrying {self.load} g "
            f"on its tip"
        )

    def title(self) -> str:
        return (
            f"cantilever reaching {with_unit(self.reach, 'stud')}, {with_unit(self.height, 'layer')} up, base of "
            f"{with_unit(self.base, 'stud')}{carrying(self.load)}"
        )

    @property
    def difficulty(self) -> float:
        return float(self.height * estimated_parts(self.base, 2) + 2)

    @property
    def extent(self) -> tuple[int, int, int]:
        return self.base + self.reach, 2, self.height + 1

    @classmethod
    def grid(cls) -> Iterator[Self]:
        """Yield briefs for which an arm of one part overlaps the base by at least two cells."""
        for reach, height, base, load in itertools.product(range(2, 7), range(1, 7), (2, 4, 6), (20, 50, 100)):
            if any(2 <= arm - reach <= base for arm in lengths(STANDARD, 1)):
                yield cls(reach, height, base, load)

    def _measure(self, structure: Structure, form: Solid) -> float:
        grounded = np.flatnonzero(form.filled_XYZ[:, :, 0].any(axis=1))
        if not len(grounded) or grounded[-1] == form.shape[0] - 1:
            return 0.0
        arm_XY = form.bottom_XY[grounded[-1] + 1 :]
        base = int(grounded[-1] - grounded[0]) + 1
        reached = float((arm_XY < form.shape[2]).any(axis=1).mean())
        match = ratio(len(arm_XY), self.reach) * ratio(int(arm_XY.min()), self.height)
        return match * min(1.0, self.base / base) * reached

    def _loads(self, form: Solid) -> tuple[Load, ...]:
        tip = form.shape[0] - 1
        return form.loads_on([(tip, y) for y in range(form.shape[1])], kilograms(self.load))


def spans(form: Solid) -> list[Span]:
    """Return all spans of a structure in ascending order of x."""
    free_X = form.bottom_XY.min(axis=1) > 0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], free_X, [False]]).astype(np.int8)))
    pairs = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    return [Span(start, stop, int(start > 0) + int(stop < len(free_X))) for start, stop in pairs]
