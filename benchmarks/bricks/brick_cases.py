"""Structures with published stability (StableLego, Liu et al., IEEE RA-L 2024), and one that its method misjudges."""

from __future__ import annotations

from dataclasses import dataclass, replace

from steelyard.domains.bricks import STANDARD, Brick, Library, Structure, World
from steelyard.domains.bricks.structure import place

SIZE = (64, 64, 32)
HEAVY = Library(tuple(replace(part, mass=0.2) if part.name == "2x2" else part for part in STANDARD.parts))
"""A 2x2 brick weighs 0.2 kg in the load cases."""
STICK = (
    (8, 0, 0),
    (4, 6, 1),
    (4, 8, 2),
    (8, 10, 3),
    (8, 16, 2),
    (6, 22, 3),
    (6, 26, 2),
    (6, 30, 3),
    (6, 34, 2),
    (6, 38, 3),
    (6, 42, 2),
    (4, 44, 3),
    (4, 44, 4),
)
"""Each brick's length along x, then its x and z coordinates; y is the same for all bricks."""


@dataclass(frozen=True)
class Case:
    name: str
    structure: Structure
    stands: bool
    score: float
    """The largest tensile force divided by the capacity, to four decimals."""


def golden() -> list[Case]:
    """Return the eight published outcomes; the papers give no scores for collapsing structures, so ours are used."""
    stick, more = _stick(), Brick(4, 1, 44, 21, 5)
    arm = [Brick(4, 2, 0, 21, 0), Brick(4, 2, 2, 21, 1), Brick(4, 2, 4, 21, 2)]
    return [
        Case("stairs of 19", _placed(stairs(19)), True, 0.9007),
        Case("stairs of 20", _placed(stairs(20)), False, 1.0055),
        Case("stairs of 20 with a foot", _placed([*stairs(20), Brick(1, 2, 4, 21, 0)]), True, 0.9007),
        Case("stick", _placed(stick), True, 0.9214),
        Case("stick, one brick more", _placed([*stick, more]), False, 1.0215),
        Case("stick, one more and a foot", _placed([*stick, more, Brick(2, 1, 8, 21, 0)]), True, 0.9341),
        Case("load on three", _placed([*arm, Brick(2, 2, 5, 21, 3)], HEAVY), True, 0.6413),
        Case("load on four", _placed([*arm, Brick(4, 2, 6, 21, 3), Brick(2, 2, 7, 21, 4)], HEAVY), False, 1.1872),
    ]


def column() -> Structure:
    """Return a column of eight 1x1 bricks under the end of a 1x4; it stands, but the weighted program rejects it."""
    return _placed([*(Brick(1, 1, 5, 5, z) for z in range(8)), Brick(1, 4, 5, 5, 8)])


def stairs(steps: int) -> list[Brick]:
    return [Brick(4, 2, 2 * step, 21, step) for step in range(steps)]


def _stick() -> list[Brick]:
    return [Brick(length, 1, x, 21, z) for length, x, z in STICK]


def _placed(bricks: list[Brick], library: Library = STANDARD) -> Structure:
    return place(bricks, World(SIZE, library))
