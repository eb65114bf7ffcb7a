r"""Linear programs of the stability analysis, as sparse matrices by columns.

The largest pull t is found by one program::

    minimise t   such that every residual is 0 and every s_p ≥ −t

With v_p = s_p + t ≥ 0 in place of s_p the bounds need no rows, and t becomes a column of its own, minus the sum of the
columns of all contact points: 5 rows a brick and nothing else. Push and pull at a point are one signed number, since
lowering both by the smaller of the two changes no force (the published product n·f = 0 holds by itself).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.domains.bricks.stability.physics import Physics
from steelyard.domains.bricks.stability.statics import Columns, Floats, Index, Statics

RESIDUAL_PULL_WEIGHT = 1e-6
"""What a newton of pull costs beside a newton of residual where no equilibrium exists."""


@dataclass(frozen=True, eq=False)
class Program:
    """Minimise cost · x within ``lower ≤ x ≤ upper`` and ``row_lower ≤ A x ≤ row_upper``, A by columns."""

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
    """The smallest cost of a program and the point where it is reached."""

    cost: float
    x: Floats


def pull_program(rest: Statics) -> Program:
    """The smallest largest pull, in capacities: its objective, and the last unknown."""
    points, bounds = _forces(rest)
    total_R = _summed(rest.points.row_NK, rest.points.value_NK, rest.rows + 5)[: rest.rows]
    touched = np.flatnonzero(total_R).astype(np.int32)
    shift = Columns(touched[None, :], -total_R[None, touched])
    cost = np.zeros(len(bounds) + 1)
    cost[-1] = 1.0
    lower = np.append(bounds, 0.0)
    upper = np.full(len(cost), np.inf)
    return assemble([*points, shift], cost, lower, upper, rest.weight_R, rest.weight_R)


def stress_program(rest: Statics, pull: float) -> Program:
    """Pulls M_b of the bricks, none above ``pull``, with the smallest sum: the last B unknowns.

    Same shift, brick by brick: v_p = s_p + M_b for the points below brick b.
    """
    points, bounds = _forces(rest)
    cost = np.zeros(len(bounds) + rest.bricks)
    cost[-rest.bricks :] = 1.0
    lower = np.append(bounds, np.zeros(rest.bricks))
    upper = np.full(len(cost), np.inf)
    upper[-rest.bricks :] = pull
    return assemble(points, cost, lower, upper, rest.weight_R, rest.weight_R, last=_shift_by_brick(rest))


def residual_program(rest: Statics, physics: Physics) -> Program:
    """The smallest sum of residuals (N, N·m), with hardly any weight on pulls. After the forces come the B pulls M_b,
    then the 5 B residuals as their positive and their negative parts.
    """
    points, bounds = _forces(rest)
    unit_R = residual_units(rest.bricks, physics)
    pulls = np.full(rest.bricks, RESIDUAL_PULL_WEIGHT * physics.capacity)
    cost = np.concatenate([np.zeros(len(bounds)), pulls, unit_R, unit_R])
    lower = np.append(bounds, np.zeros(len(cost) - len(bounds)))
    upper = np.full(len(cost), np.inf)
    rows = np.arange(rest.rows, dtype=np.int32)
    signs = np.concatenate([-np.ones(rest.rows), np.ones(rest.rows)])
    start, index, value = _shift_by_brick(rest)
    residuals = np.arange(1, 2 * rest.rows + 1, dtype=np.int32)
    last = (
        np.append(start, start[-1] + residuals),
        np.concatenate([index, rows, rows]),
        np.concatenate([value, signs]),
    )
    return assemble(points, cost, lower, upper, rest.weight_R, rest.weight_R, last=last)


def residual_units(bricks: int, physics: Physics) -> Floats:
    """Newtons and newton metres that one of our units of each residual is."""
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


def _forces(rest: Statics) -> tuple[list[Columns], Floats]:
    """The blocks of all forces with their lower bounds: horizontal forces have either sign."""
    bounds = np.zeros(len(rest.points) + len(rest.shears) + len(rest.presses))
    bounds[len(rest.points) : len(rest.points) + len(rest.shears)] = -np.inf
    return [rest.points, rest.shears, rest.presses], bounds


def _shift_by_brick(rest: Statics) -> tuple[Index, Index, Floats]:
    """For each brick minus the sum of the columns of the points below it, as (start, row, value)."""
    rows = rest.rows + 5
    key = (rest.upper_P[:, None].astype(np.int64) * rows + rest.points.row_NK).ravel()
    places, which = np.unique(key, return_inverse=True)
    value = -_summed(which, rest.points.value_NK, len(places))
    brick, row = np.divmod(places, rows)
    kept = row < rest.rows
    start = np.zeros(rest.bricks + 1, np.int32)
    np.cumsum(np.bincount(brick[kept], minlength=rest.bricks), out=start[1:])
    return start, row[kept].astype(np.int32), value[kept]


def _summed(place: NDArray[np.integer], value: Floats, length: int) -> Floats:
    """The values that belong to each place, added up."""
    return np.bincount(place.ravel(), value.ravel(), length).astype(np.float64, copy=False)
