"""The published stability program, for comparison (StableLego, Liu et al., IEEE RA-L 2024; BrickGPT, Pun et al., 2025).

It solves::

    minimise Σ |residuals| + α Σ_b M_b + β Σ f,   M_b ≥ every pull f below brick b

The papers add the constraints n·f = 0 and M_b = max f, and solve the program with Gurobi; the optimum of this linear
program satisfies both without adding them. The weighted sum can trade a residual for pulls, so it reports some standing
columns as collapsed. Steelyard's own ``assess`` does not make this error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from steelyard.domains.bricks.connectivity import grounded_bricks
from steelyard.domains.bricks.contacts import contacts
from steelyard.domains.bricks.stability.assessment import Stability
from steelyard.domains.bricks.stability.forces import Forces
from steelyard.domains.bricks.stability.physics import PUBLISHED, TOLERANCE, Load, Physics
from steelyard.domains.bricks.stability.program import Program, assemble, residual_units
from steelyard.domains.bricks.stability.solvers import Backend, solver
from steelyard.domains.bricks.stability.statics import Columns, Statics, statics
from steelyard.domains.bricks.structure import Structure
from steelyard.errors import VerifierError

ALPHA = 1e-3
BETA = 1e-6


def assess_weighted(
    structure: Structure,
    loads: Sequence[Load] = (),
    *,
    physics: Physics = PUBLISHED,
    backend: Backend = "highs",
    alpha: float = ALPHA,
    beta: float = BETA,
) -> Stability:
    """Score each brick: 1 if it has a residual or M_b reaches the capacity, otherwise M_b over the capacity."""
    touching = contacts(structure)
    equations = statics(structure, touching, loads, physics)
    best = solver(backend)(weighted_program(equations, physics, alpha, beta))
    if best is None:
        raise VerifierError("the solver found no solution, although the weighted program is always feasible")
    points, bricks = len(equations.points), equations.bricks
    pull_B = best.x[-bricks:]
    residual_R = (
        best.x[2 * points + len(equations.shears) + len(equations.presses) : -bricks].reshape(2, -1).sum(axis=0)
    )
    size_B = (residual_R * residual_units(bricks, physics)).reshape(-1, 5).max(axis=1)
    fails_B = (size_B > TOLERANCE) | (pull_B >= 1.0) | ~grounded_bricks(touching, bricks)
    score_B = np.where(fails_B, 1.0, pull_B)
    newton_P = (best.x[:points] - best.x[points : 2 * points]) * physics.capacity
    return Stability(
        not fails_B.any(),
        math.inf if (size_B > TOLERANCE).any() else float(pull_B.max()) * physics.capacity,
        score_B,
        tuple(np.flatnonzero(fails_B).tolist()),
        Forces(equations.upper_P, equations.lower_P, equations.x_P, equations.y_P, newton_P),
    )


def weighted_program(equations: Statics, physics: Physics, alpha: float, beta: float) -> Program:
    """Build the weighted program, with costs in newtons and newton metres.

    Unknowns: pushes n, pulls f, horizontal forces, presses, residuals (positive and negative parts), and M_b. Rows: the
    residuals, five free rows for the ground, then M_b − f ≥ 0 for every contact point.
    """
    points, rows, bricks = len(equations.points), equations.rows, equations.bricks
    limit_P1 = (rows + 5 + np.arange(points, dtype=np.int32))[:, None]
    pulls = Columns(
        np.hstack([equations.points.row_NK, limit_P1]),
        np.hstack([-equations.points.value_NK, np.full((points, 1), -1.0)]),
    )
    row_R1 = np.arange(rows, dtype=np.int32)[:, None]
    residuals = (Columns(row_R1, np.full((rows, 1), -1.0)), Columns(row_R1, np.ones((rows, 1))))
    order = np.argsort(equations.upper_P, kind="stable")
    start = np.append(0, np.cumsum(np.bincount(equations.upper_P, minlength=bricks))).astype(np.int32)
    last = (start, limit_P1[order, 0], np.ones(points))
    blocks = [equations.points, pulls, equations.shears, equations.presses, *residuals]
    unit_R = residual_units(bricks, physics)
    cost = np.concatenate(
        [
            np.zeros(points),
            np.full(points, beta * physics.capacity),
            np.zeros(len(equations.shears) + len(equations.presses)),
            unit_R,
            unit_R,
            np.full(bricks, alpha * physics.capacity),
        ]
    )
    lower = np.zeros(len(cost))
    lower[2 * points : 2 * points + len(equations.shears)] = -np.inf
    row_lower = np.concatenate([equations.weight_R, np.full(5, -np.inf), np.zeros(points)])
    row_upper = np.concatenate([equations.weight_R, np.full(5 + points, np.inf)])
    return assemble(blocks, cost, lower, np.full(len(cost), np.inf), row_lower, row_upper, last=last)
