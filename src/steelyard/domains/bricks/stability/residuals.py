"""The residual program: the missing forces when no equilibrium exists."""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.domains.bricks.stability.physics import Physics
from steelyard.domains.bricks.stability.program import residual_program, residual_units
from steelyard.domains.bricks.stability.solvers import Solver
from steelyard.domains.bricks.stability.statics import Floats, Statics
from steelyard.errors import VerifierError


@dataclass(frozen=True, eq=False)
class Residuals:
    """The residuals with the smallest sum. If several bricks could carry a residual, the choice is up to the solver."""

    size_B: Floats
    """Largest of the five residuals of each brick, in newtons or newton metres; positive if the brick is not in
    equilibrium.
    """
    total: float
    """Sum of all residuals."""
    pull_B: Floats
    """Pull of each brick relative to the capacity."""


def residuals(equations: Statics, solve: Solver, physics: Physics) -> Residuals:
    """Minimise Σ |residual| over forces of any size."""
    best = solve(residual_program(equations, physics))
    if best is None:
        raise VerifierError("the residual program has no solution, although any set of forces is feasible")
    first = len(equations.points) + len(equations.shears) + len(equations.presses)
    positive_R, negative_R = best.x[first + equations.bricks :].reshape(2, -1)
    size_R = (positive_R + negative_R) * residual_units(equations.bricks, physics)
    size_B = size_R.reshape(-1, 5).max(axis=1)
    return Residuals(size_B, float(size_R.sum()), best.x[first : first + equations.bricks])
