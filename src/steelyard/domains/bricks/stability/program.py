r"""Linear programs of the stability analysis, as sparse matrices in column format.

One program finds the largest pull t::

    minimise t   such that every residual is 0 and every s_p ≥ −t

Substituting v_p = s_p + t ≥ 0 turns the bounds on s_p into bounds on variables, and t into one column, the negative sum
of the columns of all contact points. The program therefore has only 5 rows per brick. Push and pull at a point are one
signed number, because reducing both by the smaller of the two changes no force. The published constraint n·f = 0 is
thus always satisfied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.domains.bricks.stability.physics import Physics
from steelyard.domains.bricks.stability.statics import Columns, Floats, Index, Statics

RESIDUAL_PULL_WEIGHT = 1e-6
"""Cost of a newton of pull relative to a newton of residual when no equilibrium exists."""


@dataclass(frozen=True, eq=False)
class Program:
    """Minimise cost · x subject to ``lower ≤ x ≤ upper`` and ``row_lower ≤ A x ≤ row_upper``, with A in CSC format."""

    cost: Floats
    lower: Floats
    upper: Floats
    row_lower: Floats
    row_upper: Floats
    start: Index
    index: Index
    value: Floats

    @property
    def columns(self) -> int:
        return len(self.cost)

    @property
    def rows(self) -> int:
        return len(self.row_lower)


@dataclass(frozen=True, eq=False)
class Solution:
    """Optimal cost and solution of a linear program."""

    cost: float
    x: Floats


def pull_program(equations: Statics) -> Program:
    """Minimise the largest pull relative to the capacity, which is the objective and the last unknown."""
    points, bounds = _forces(equations)
    total_R = _summed(equations.points.row_NK, equations.points.value_NK, equations.rows + 5)[: equations.rows]
    touched = np.flatnonzero(total_R).astype(np.int32)
    shift = Columns(touched[None, :], -total_R[None, touched])
    cost = np.zeros(len(bounds) + 1)
    cost[-1] = 1.0
    lower = np.append(bounds, 0.0)
    upper = np.full(len(cost), np.inf)
    return assemble([*points, shift], cost, lower, upper, equations.weight_R, equations.weight_R)


def stress_program(equations: Statics, pull: float) -> Program:
    """Minimise the sum of the bricks' pulls M_b, each at most ``pull``; they are the last B unknowns.

    The substitution is per brick: v_p = s_p + M_b for the points below brick b.
    """
    points, bounds = _forces(equations)
    cost = np.zeros(len(bounds) + equations.bricks)
    cost[-equations.bricks :] = 1.0
    lower = np.append(bounds, np.zeros(equations.bricks))
    upper = np.full(len(cost), np.inf)
    upper[-equations.bricks :] = pull
    return assemble(points, cost, lower, upper, equations.weight_R, equations.weight_R, last=_shift_by_brick(equations))


def residual_program(equations: Statics, physics: Physics) -> Program:
    """Minimise the sum of residuals (N, N·m), with a tiny weight on pulls.

    The unknowns are the forces, the B pulls M_b, then the positive and the negative parts of the 5 B residuals.
    """
    points, bounds = _forces(equations)
    unit_R = residual_units(equations.bricks, physics)
    pulls = np.full(equations.bricks, RESIDUAL_PULL_WEIGHT * physics.capacity)
    cost = np.concatenate([np.zeros(len(bounds)), pulls, unit_R, unit_R])
    lower = np.append(bounds, np.zeros(len(cost) - len(bounds)))
    upper = np.full(len(cost), np.inf)
    rows = np.arange(equations.rows, dtype=np.int32)
    signs = np.concatenate([-np.ones(equations.rows), np.ones(equations.rows)])
    start, index, value = _shift_by_brick(equations)
    residuals = np.arange(1, 2 * equations.rows + 1, dtype=np.int32)
    last = (
        np.append(start, start[-1] + residuals),
        np.concatenate([index, rows, rows]),
        np.concatenate([value, signs]),
    )
    return assemble(points, cost, lower, upper, equations.weight_R, equations.weight_R, last=last)


def residual_units(bricks: int, physics: Physics) -> Floats:
    """Return the unit of each residual in newtons or newton metres."""
    torque = physics.capacity * physics.pitch
    return np.tile([physics.capacity] * 3 + [torque] * 2, bricks)


def assemble(
    blocks: Sequence[Columns],
    cost: Floats,
    lower: Floats,
    upper: Floats,
    row_lower: Floats,
    row_upper: Floats,
    *,
    last: tuple[Index, Index, Floats] | None = None,
) -> Program:
    """Concatenate the columns of all blocks, followed by the columns ``last`` (start, row, value).

    Rows beyond ``row_lower`` are dropped: they belong to the ground, which cannot move.
    """
    rows = [block.row_NK.ravel() for block in blocks]
    values = [block.value_NK.ravel() for block in blocks]
    widths = [np.repeat([block.row_NK.shape[1] for block in blocks], [len(block) for block in blocks])]
    if last is not None:
        rows.append(last[1])
        values.append(last[2])
        widths.append(np.diff(last[0]))
    row = np.concatenate(rows)
    kept = row < len(row_lower)
    kept_before, entries_before = np.zeros(len(row) + 1, np.int32), np.zeros(len(cost) + 1, np.int32)
    np.cumsum(kept, out=kept_before[1:])
    np.cumsum(np.concatenate(widths), out=entries_before[1:])
    start, index, value = kept_before[entries_before], row[kept], np.concatenate(values)[kept]
    return Program(cost, lower, upper, row_lower, row_upper, start, index, value)


def _forces(equations: Statics) -> tuple[list[Columns], Floats]:
    """Return the column blocks of all forces and their lower bounds; horizontal forces may be negative."""
    bounds = np.zeros(len(equations.points) + len(equations.shears) + len(equations.presses))
    bounds[len(equations.points) : len(equations.points) + len(equations.shears)] = -np.inf
    return [equations.points, equations.shears, equations.presses], bounds


def _shift_by_brick(equations: Statics) -> tuple[Index, Index, Floats]:
    """Return, for each brick, the negative sum of the columns of the points below it, as (start, row, value)."""
    rows = equations.rows + 5
    key = (equations.upper_P[:, None].astype(np.int64) * rows + equations.points.row_NK).ravel()
    places, which = np.unique(key, return_inverse=True)
    value = -_summed(which, equations.points.value_NK, len(places))
    brick, row = np.divmod(places, rows)
    kept = row < equations.rows
    start = np.zeros(equations.bricks + 1, np.int32)
    np.cumsum(np.bincount(brick[kept], minlength=equations.bricks), out=start[1:])
    return start, row[kept].astype(np.int32), value[kept]


def _summed(index: NDArray[np.integer], value: Floats, length: int) -> Floats:
    """Sum the values that share an index."""
    return np.bincount(index.ravel(), value.ravel(), length).astype(np.float64, copy=False)
