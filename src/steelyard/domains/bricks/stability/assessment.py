"""The verdict on a structure: the largest pull t, a score for each brick, and the bricks that fail.

A structure stands if every brick reaches the ground, an equilibrium exists, and t is below the capacity of a contact
point. t is unique; how the pulls are shared among bricks is not, so compare classes and t, never single scores.

With pulls of any size an equilibrium exists exactly if every brick reaches the ground: the three or four points of one
contact already pass on any force and any tilt. So floating bricks are named by connectivity, which names all of them,
and the residual program is asked only if the solver disagrees.
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
"""``connectivity``: no solver; a structure passes if every brick reaches the ground, and falls over unnoticed."""
ROOM = 1e-6
"""How far, relatively, bricks may go above the largest pull when pulls are shared out: more than the solver's noise."""


@dataclass(frozen=True, eq=False)
class Stability:
    """What became of a structure."""

    stands: bool
    pull: float
    """The largest pull t in newtons; infinite if nothing holds it or a brick floats, NaN if no solver was asked."""
    score_B: Floats
    """Pull of each brick over the capacity, 1 for a brick that fails."""
    failing: tuple[int, ...]
    """Places of the bricks that float, are not held, or pull too hard."""
    forces: Forces | None = None


def largest_pull(
    structure: Structure, loads: Sequence[Load] = (), *, physics: Physics = PUBLISHED, backend: Backend = "highs"
) -> float:
    """t in newtons, infinite if nothing holds the structure: all that is needed for the class, in one program."""
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
    """Assess a structure in its own orientation only; ``symmetry.assess`` can also check its mirror images."""
    touching = contacts(structure)
    grounded_B = grounded_bricks(touching, len(structure))
    if method == "connectivity":
        return _verdict(math.nan, (~grounded_B).astype(np.float64), None)
    if not grounded_B.all():
        return _with_floating(structure, loads, grounded_B, physics, method)
    if not len(structure):
        return _verdict(0.0, np.zeros(0), None)
    rest = statics(structure, touching, loads, physics)
    find = solver(method)
    best = find(pull_program(rest))
    return _fallen(rest, find, physics) if best is None else _held(rest, best.cost, find, physics)


def _held(rest: Statics, pull: float, find: Solver, physics: Physics) -> Stability:
    """An equilibrium exists: share the pulls out among the bricks."""
    shared = find(stress_program(rest, pull * (1 + ROOM) + ROOM * 1e-3))
    if shared is None:
        raise VerifierError(f"no equilibrium with the largest pull {pull} that was just found")
    pull_B = shared.x[-rest.bricks :]
    acting = forces(rest, shared.x[: len(rest.points)], pull_B, physics)
    score_B = np.minimum(pull_B, 1.0)
    if pull >= 1.0:
        score_B[pull_B >= min(1.0, float(pull_B.max()))] = 1.0
    else:
        score_B = np.minimum(score_B, pull)
    return _verdict(pull * physics.capacity, score_B, acting)


def _fallen(rest: Statics, find: Solver, physics: Physics) -> Stability:
    """No equilibrium was found: the bricks with a residual are not held."""
    left = residuals(rest, find, physics)
    unheld_B = left.size_B > min(TOLERANCE, float(left.size_B.max()) / 2)
    return _verdict(math.inf, np.where(unheld_B, 1.0, np.minimum(left.pull_B, 1.0)), None)


def _with_floating(
    structure: Structure, loads: Sequence[Load], grounded_B: np.ndarray, physics: Physics, method: Backend
) -> Stability:
    """Floating bricks fail; the others are judged as if those were not there."""
    score_B = np.ones(len(structure))
    kept = tuple(structure.bricks[place] for place in np.flatnonzero(grounded_B))
    kept_loads = [load for load in loads if grounded_B[brick_at(structure, load)]]
    rest = assess_as_given(Structure(kept, structure.world), kept_loads, physics=physics, method=method)
    score_B[grounded_B] = rest.score_B
    return _verdict(math.inf, score_B, None)


def _verdict(pull: float, score_B: Floats, acting: Forces | None) -> Stability:
    failing = tuple(np.flatnonzero(score_B >= 1.0).tolist())
    return Stability(not failing, pull, score_B, failing, acting)
