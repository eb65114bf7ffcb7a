"""Brick parts: footprint, mass and LDraw part number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Part:
    """A brick one layer tall, ``h`` by ``w`` studs with h <= w, that can be placed in both orientations."""

    h: int
    w: int
    mass: float
    """Kilograms."""
    ldraw: str = ""
    """File name in the LDraw library without ``.dat``; empty if the part cannot be exported to LDraw."""

    def __post_init__(self) -> None:
        if not 1 <= self.h <= self.w:
            raise ValueError(f"part {self.h}x{self.w}: sides must be at least 1, with the shorter side first")
        if not (math.isfinite(self.mass) and self.mass > 0):
            raise ValueError(f"part {self.name}: mass = {self.mass} kg must be positive")

    @property
    def name(self) -> str:
        return f"{self.h}x{self.w}"


@dataclass(frozen=True)
class Library:
    """A set of parts with distinct footprints; ``dimensions`` follows the order of ``parts``."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"library of {names or 'no parts'}: pass at least one part, and each footprint only once")

    @cached_property
    def dimensions(self) -> tuple[tuple[int, int], ...]:
        """Footprints of all oriented parts as (along x, along y): ``2x4 4x2 …``. Square parts have one orientation."""
        pairs = [((part.h, part.w), (part.w, part.h)) for part in self.parts]
        return tuple(dict.fromkeys(footprint for both in pairs for footprint in both))

    @cached_property
    def by_dimensions(self) -> Mapping[tuple[int, int], Part]:
        """Maps each footprint (h along x, w along y) to its part."""
        return {footprint: part for part in self.parts for footprint in ((part.h, part.w), (part.w, part.h))}

    def __contains__(self, dimensions: object) -> bool:
        return dimensions in self.by_dimensions

    def __str__(self) -> str:
        return " ".join(f"{h}x{w}" for h, w in self.dimensions)

    def summary(self) -> str:
        """List each part in one orientation, grouped by width: ``1x1/2/4/6/8, 2x2/4/6``."""
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
"""The eight parts (fourteen orientations) of the public text-to-brick dataset StableText2Brick (BrickGPT, 2025)."""
