"""Physical constants of the stability analysis, and external loads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Physics:
    """Constants in SI units; the defaults are measurements published for StableLego (Liu et al., IEEE RA-L 2024)."""

    gravity: float = 9.8
    capacity: float = 0.98
    """Pull in newtons at which a contact point fails."""
    layer: float = 0.0096
    """Height of a brick in metres."""
    pitch: float = 0.0078
    """Distance between studs in metres."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not (math.isfinite(value := getattr(self, name)) and value > 0):
                raise ValueError(f"physics: {name} = {value} must be positive")

    @property
    def half_layer(self) -> float:
        """Half the height of a brick, in studs."""
        return self.layer / 2 / self.pitch


PUBLISHED = Physics()


class Load(NamedTuple):
    """A mass resting on the centre of one cell of a brick."""

    x: int
    y: int
    z: int
    kilograms: float


TOLERANCE = 1e-6
"""Residual forces (N) and torques (N·m) below this value are solver noise."""
