"""Forces of an equilibrium, for drawing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steelyard.domains.bricks.stability.physics import Physics
from steelyard.domains.bricks.stability.statics import Floats, Index, Statics


@dataclass(frozen=True, eq=False)
class Forces:
    """What acts at each contact point; one of many equilibria, so it explains, and is not to be compared."""

    upper_P: Index
    lower_P: Index
    """The brick below; for the ground, the number of bricks."""
    x_P: Floats
    """In studs; the middle of cell 0 is at 0."""
    y_P: Floats
    newton_P: Floats
    """On the upper brick: above 0 it is pushed up, below 0 it is pulled down."""


def forces(rest: Statics, shifted_P: Floats, pull_B: Floats, physics: Physics) -> Forces:
    """s_p = v_p − M_b back in newtons, M_b the pull of the brick above."""
    newton_P = (shifted_P - pull_B[rest.upper_P]) * physics.capacity
    return Forces(rest.upper_P, rest.lower_P, rest.x_P, rest.y_P, np.round(newton_P, 12))
