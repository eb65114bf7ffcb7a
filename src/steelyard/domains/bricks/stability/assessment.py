"""Stability of a structure: the largest tensile force t, a score for each brick, and the failing bricks.

A structure stands if every brick is connected to the ground, an equilibrium exists, and t is below the capacity of a
contact point. t is unique, but the pulls of single bricks are not: compare verdicts and t, never single scores.

If pulls are unlimited, an equilibrium exists if and only if every brick is connected to the ground, because the three
or four points of one contact transmit any force and any torque. Floating bricks are therefore found by connectivity,
which finds all of them. The residual program runs only if the solver disagrees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from steelyard.domains.bricks.connectivity import grounded_bricks
from steelyard.domains.bricks.contacts import contacts
from steelyard.domains.bricks.stability.forces import Forces, forces
from steelyard.domains.bricks.stability.physics import PUBLISHED, TOLERANCE, Load, Physics
from steelyard.domains.bricks.stability.program import pull_program, stress_program
from steelyard.domains.bricks.stability.residuals import residuals
from steelyard.domains.bricks.stability.solvers import Backend, Solver, solver
from steelyard.domains.bricks.stability.statics import Floats, Statics, brick_at, statics
from steelyard.domains.bricks.structure import Structure
from steelyard.errors import VerifierError

Method = Literal["highs", "gurobi", "connectivity"]
"""``connectivity`` uses no solver: a structure passes if it is connected to the ground, even if it would topple."""
SLACK = 1e-6
"""Relative margin above the largest pull when pulls are distributed over bricks; it exceeds the solver's noise."""


@dataclass(frozen=True, eq=False)
class Stability:
    """Result of the stability analysis."""

    stands: bool
    pull: float
    """Largest pull t in newtons; infinite without an equilibrium or with a floating brick, NaN without a solver."""
    score_B: Floats
    """Pull of each brick relative to the capacity; 1 for a failing brick."""
    failing: tuple[int, ...]
    """Indices of the bricks that float, have no equilibrium, or exceed the capacity."""
    forces: Forces | None = None


def largest_pull(
    structure: Structure, loads: Sequence[Load] = (), *, physics: Physics = PUBLISHED, backend: Backend = "highs"
) -> float:
    """Return t in newtons, or infinity without an equilibrium, by solving one linear program."""
    touching = contacts(structure)
    if not grounded_bricks(touching, len(structure)).all():
        return math.inf
    if not len(structure):
        return 0.0
    best = solver(backend)(pull_program(statics(structure, touching, loads, physics)))
    return math.inf if best is None else best.cost * physics.capacity


def assess_as_given(
    structure: Structure, loads: Sequence[Load] = (), *, physics: Physics = PUBLISHED, method: Method = "highs"
) -> Stability:
    """Analyse a structure as given; ``symmetry.assess`` can also analyse its rotations and reflections."""
    touching = contacts(structure)
    grounded_B = grounded_bricks(touching, len(structure))
    if method == "connectivity":
        return _verdict(math.nan, (~grounded_B).astype(np.float64), None)
    if not grounded_B.all():
        return _with_floating(structure, loads, grounded_B, physics, method)
    if not len(structure):
        return _verdict(0.0, np.zeros(0), None)
    equations = statics(structure, touching, loads, physics)
    solve = solver(method)
    best = solve(pull_program(equations))
    return _unbalanced(equations, solve, physics) if best is None else _balanced(equations, best.cost, solve, physics)


def _balanced(equations: Statics, pull: float, solve: Solver, physics: Physics) -> Stability:
    """Distribute the pulls over the bricks of a structure with an equilibrium."""
    distributed = solve(stress_program(equations, pull * (1 + SLACK) + SLACK * 1e-3))
    if distributed is None:
        raise VerifierError(f"the solver found a largest pull of {pull}, but no equilibrium at that pull")
    pull_B = distributed.x[-equations.bricks :]
    acting = forces(equations, distributed.x[: len(equations.points)], pull_B, physics)
    score_B = np.minimum(pull_B, 1.0)
    if pull >= 1.0:
        score_B[pull_B >= min(1.0, float(pull_B.max()))] = 1.0
    else:
        score_B = np.minimum(score_B, pull)
    return _verdict(pull * physics.capacity, score_B, acting)


def _unbalanced(equations: Statics, solve: Solver, physics: Physics) -> Stability:
    """Mark the bricks with a residual force as failing, for a structure without an equilibrium."""
    remaining = residuals(equations, solve, physics)
    unheld_B = remaining.size_B > min(TOLERANCE, float(remaining.size_B.max()) / 2)
    return _verdict(math.inf, np.where(unheld_B, 1.0, np.minimum(remaining.pull_B, 1.0)), None)


def _with_floating(
    structure: Structure, loads: Sequence[Load], grounded_B: np.ndarray, physics: Physics, method: Backend
) -> Stability:
    """Mark floating bricks as failing and analyse the other bricks without them."""
    score_B = np.ones(len(structure))
    kept = tuple(structure.bricks[index] for index in np.flatnonzero(grounded_B))
    kept_loads = [load for load in loads if grounded_B[brick_at(structure, load)]]
    grounded = assess_as_given(Structure(kept, structure.world), kept_loads, physics=physics, method=method)
    score_B[grounded_B] = grounded.score_B
    return _verdict(math.inf, score_B, None)


def _verdict(pull: float, score_B: Floats, acting: Forces | None) -> Stability:
    failing = tuple(np.flatnonzero(score_B >= 1.0).tolist())
    return Stability(not failing, pull, score_B, failing, acting)
