"""Constants of the stability analysis, and loads from outside."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Physics:
    """As measured and published for StableLego (Liu et al., IEEE RA-L 2024), in SI units."""

    gravity: float = 9.8
    capacity: float = 0.98
    """The pull, in newtons, at which a contact point lets go."""
    layer: float = 0.0096
    """How tall a brick is, in metres."""
    pitch: float = 0.0078
    """From stud to stud, in metres."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not (math.isfinite(value := getattr(self, name)) and value > 0):
                raise ValueError(f"physics: {name} = {value}; it must be above 0")

    @property
    def half_layer(self) -> float:
        """In studs."""
        return self.layer / 2 / self.pitch


PUBLISHED = Physics()


class Load(NamedTuple):
    """Kilograms that rest on the middle of a cell of some brick."""

    x: int
    y: int
    z: int
    kilograms: float


TOLERANCE = 1e-6
"""Residual forces (N) and torques (N·m) below this are the solver's noise."""
