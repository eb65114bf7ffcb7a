"""What is missing to an equilibrium where there is none: the residual program."""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.domains.bricks.stability.physics import Physics
from steelyard.domains.bricks.stability.program import residual_program, residual_units
from steelyard.domains.bricks.stability.solvers import Solver
from steelyard.domains.bricks.stability.statics import Floats, Statics
from steelyard.errors import VerifierError


@dataclass(frozen=True, eq=False)
class Residuals:
    """The smallest residuals in sum; which of several bricks bears one is the solver's choice."""

    size_B: Floats
    """The largest of each brick's five, in newtons or newton metres; above 0: it is not held."""
    total: float
    """The sum over all bricks."""
    pull_B: Floats
    """The pull of each brick in capacities."""


def residuals(rest: Statics, find: Solver, physics: Physics) -> Residuals:
    """Σ |residual| as small as forces of any size can make it."""
    best = find(residual_program(rest, physics))
    if best is None:
        raise VerifierError("the residual program has no solution, though any forces satisfy it")
    first = len(rest.points) + len(rest.shears) + len(rest.presses)
    positive_R, negative_R = best.x[first + rest.bricks :].reshape(2, -1)
    size_R = (positive_R + negative_R) * residual_units(rest.bricks, physics)
    size_B = size_R.reshape(-1, 5).max(axis=1)
    return Residuals(size_B, float(size_R.sum()), best.x[first : first + rest.bricks])
