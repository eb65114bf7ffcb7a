"""The parts that may be used: their footprint, mass and number in LDraw's library."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Part:
    """A brick one layer tall, ``h`` by ``w`` studs with h <= w. It may be laid either way."""

    h: int
    w: int
    mass: float
    """Kilograms."""
    ldraw: str = ""
    """Its file in LDraw's library, without ``.dat``; empty: it cannot be exported there."""

    def __post_init__(self) -> None:
        if not 1 <= self.h <= self.w:
            raise ValueError(f"part {self.h}x{self.w}: the sides must be at least 1, the shorter one first")
        if not (math.isfinite(self.mass) and self.mass > 0):
            raise ValueError(f"part {self.name}: mass {self.mass} kg; it must be above 0")

    @property
    def name(self) -> str:
        return f"{self.h}x{self.w}"


@dataclass(frozen=True)
class Library:
    """Parts, each footprint once; the order of ``parts`` is the order of ``dimensions``."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"library of {names or 'no parts'}: needed are parts, each footprint once")

    @cached_property
    def dimensions(self) -> tuple[tuple[int, int], ...]:
        """Every way a part can lie, as (along x, along y): ``2x4 4x2 …``; a square part lies one way."""
        ways = [((part.h, part.w), (part.w, part.h)) for part in self.parts]
        return tuple(dict.fromkeys(way for both in ways for way in both))

    @cached_property
    def by_dimensions(self) -> Mapping[tuple[int, int], Part]:
        """The part that lies ``h`` along x and ``w`` along y."""
        return {way: part for part in self.parts for way in ((part.h, part.w), (part.w, part.h))}

    def __contains__(self, dimensions: object) -> bool:
        return dimensions in self.by_dimensions

    def __str__(self) -> str:
        return " ".join(f"{h}x{w}" for h, w in self.dimensions)

    def in_short(self) -> str:
        """Each part one way round, those of one width together: ``1x1/2/4/6/8, 2x2/4/6``."""
        longer: dict[int, list[int]] = {}
        for part in sorted(self.parts, key=lambda part: (part.h, part.w)):
            longer.setdefault(part.h, []).append(part.w)
        return ", ".join(f"{h}x{'/'.join(map(str, sides))}" for h, sides in longer.items())


STANDARD = Library(
    (
        Part(2, 4, 2.16e-3, "3001"),
        Part(2, 6, 3.23e-3, "2456"),
        Part(1, 2, 0.81e-3, "3004"),
        Part(1, 4, 1.57e-3, "3010"),
        Part(1, 6, 2.28e-3, "3009"),
        Part(1, 8, 3.03e-3, "3008"),
        Part(1, 1, 0.43e-3, "3005"),
        Part(2, 2, 1.15e-3, "3003"),
    )
)
"""The eight parts, fourteen ways to lie, of the public text-to-brick data set StableText2Brick (BrickGPT, 2025)."""
