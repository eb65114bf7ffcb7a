"""Contact forces of an equilibrium."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steelyard.domains.bricks.stability.physics import Physics
from steelyard.domains.bricks.stability.statics import Floats, Index, Statics


@dataclass(frozen=True, eq=False)
class Forces:
    """The vertical force at each contact point. Equilibria are not unique, so do not compare forces across solvers."""

    upper_P: Index
    lower_P: Index
    """Index of the brick below; the ground has the index ``len(structure)``."""
    x_P: Floats
    """Position in studs; the centre of cell 0 is at 0."""
    y_P: Floats
    newton_P: Floats
    """Force on the upper brick: positive pushes it up, negative pulls it down."""


def forces(equations: Statics, shifted_P: Floats, pull_B: Floats, physics: Physics) -> Forces:
    """Convert the shifted unknowns to newtons: s_p = v_p − M_b, with M_b the pull of the brick above."""
    newton_P = (shifted_P - pull_B[equations.upper_P]) * physics.capacity
    return Forces(equations.upper_P, equations.lower_P, equations.x_P, equations.y_P, np.round(newton_P, 12))
