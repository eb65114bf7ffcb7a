"""An independent computation of the largest tensile force, cell by cell, with force vectors and separate push and pull.

It shares only the physical constants with ``steelyard.domains.bricks.stability``. Units are millinewtons and
millimetres.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from steelyard.domains.bricks import Brick, Load, Physics, Structure

Vector = tuple[float, float, float]
UP: Vector = (0.0, 0.0, 1.0)
AXES: tuple[Vector, Vector] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))


@dataclass
class Unknowns:
    """Collects the coefficients of the equilibrium equations, one unknown at a time."""

    rows: list[int] = field(default_factory=list[int])
    columns: list[int] = field(default_factory=list[int])
    values: list[float] = field(default_factory=list[float])
    free: list[bool] = field(default_factory=list[bool])
    pulls: list[int] = field(default_factory=list[int])

    def new(self, *, free: bool = False, pull: bool = False) -> int:
        self.free.append(free)
        if pull:
            self.pulls.append(len(self.free) - 1)
        return len(self.free) - 1

    def add_force(self, unknown: int, brick: int, arm: Vector, force: Vector, sign: float) -> None:
        """Add a force at ``arm`` from the brick's centre: its three components and its torques about x and y."""
        x, y, z = arm
        fx, fy, fz = force
        for row, value in enumerate((fx, fy, fz, y * fz - z * fy, z * fx - x * fz)):
            if value:
                self.rows.append(5 * brick + row)
                self.columns.append(unknown)
                self.values.append(sign * value)


def largest_pull(structure: Structure, loads: Sequence[Load], physics: Physics) -> float:
    """Return the largest tensile force in newtons, or infinity if there is no equilibrium."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    unknowns, brick_at = Unknowns(), {cell: n for n, brick in enumerate(structure.bricks) for cell in _cells(brick)}
    for cell, brick in brick_at.items():
        _contact_below(unknowns, structure, brick_at, cell, brick, physics)
        _side_contacts(unknowns, brick_at, cell, brick, physics)
    largest_pull = unknowns.new()
    count, rows = len(unknowns.free), 5 * len(structure)
    equations = coo_array((unknowns.values, (unknowns.rows, unknowns.columns)), shape=(rows, count)).tocsr()
    pulls = np.arange(len(unknowns.pulls))
    limits = coo_array(
        (
            np.concatenate([np.ones(len(pulls)), -np.ones(len(pulls))]),
            (np.concatenate([pulls, pulls]), np.concatenate([unknowns.pulls, np.full(len(pulls), largest_pull)])),
        ),
        shape=(len(pulls), count),
    ).tocsr()
    answer = linprog(
        np.eye(1, count, largest_pull)[0],
        A_ub=limits,
        b_ub=np.zeros(len(pulls)),
        A_eq=equations,
        b_eq=_weights(structure, loads, brick_at, physics),
        bounds=[(None, None) if free else (0, None) for free in unknowns.free],
        method="highs",
    )
    if answer.status == 2:
        return math.inf
    if answer.status != 0:
        raise RuntimeError(f"linprog: {answer.message}")
    return float(answer.fun) / 1000


def _contact_below(
    unknowns: Unknowns,
    structure: Structure,
    brick_at: dict[tuple[int, int, int], int],
    cell: tuple[int, int, int],
    brick: int,
    physics: Physics,
) -> None:
    i, j, k = cell
    lower = brick_at.get((i, j, k - 1))
    if lower is None and k > 0:
        return
    half = physics.layer * 500
    body = structure.bricks[brick]
    thin = 1 in (body.h, body.w)
    offsets = ((0, -2), (-2, 0), (0, 2), (2, 0)) if thin else ((1, -1), (-2, 0), (1, 1))
    sides = [(brick, -half, 1.0)] + ([] if lower is None else [(lower, half, -1.0)])
    for direction in AXES:
        shear = unknowns.new(free=True)
        for side, height, sign in sides:
            unknowns.add_force(shear, side, (*_arm(structure, side, i, j, physics), height), direction, sign)
    for dx, dy in offsets:
        push, pull = unknowns.new(), unknowns.new(pull=True)
        for side, height, sign in sides:
            arm = (*_arm(structure, side, i + dx / 8, j + dy / 8, physics), height)
            unknowns.add_force(push, side, arm, UP, sign)
            unknowns.add_force(pull, side, arm, UP, -sign)


def _side_contacts(
    unknowns: Unknowns,
    brick_at: dict[tuple[int, int, int], int],
    cell: tuple[int, int, int],
    brick: int,
    physics: Physics,
) -> None:
    i, j, k = cell
    for direction, next_cell in zip(AXES, ((i + 1, j, k), (i, j + 1, k)), strict=True):
        other = brick_at.get(next_cell, brick)
        if other != brick:
            press = unknowns.new()
            low = (0.0, 0.0, -physics.layer * 500)
            unknowns.add_force(press, other, low, direction, 1.0)
            unknowns.add_force(press, brick, low, direction, -1.0)


def _weights(
    structure: Structure, loads: Sequence[Load], brick_at: dict[tuple[int, int, int], int], physics: Physics
) -> list[float]:
    needed = [0.0] * (5 * len(structure))
    bodies = [
        (n, (0.0, 0.0), structure.world.library.by_dimensions[b[:2]].mass) for n, b in enumerate(structure.bricks)
    ]
    for x, y, z, kilograms in loads:
        brick = brick_at[x, y, z]
        bodies.append((brick, _arm(structure, brick, x, y, physics), kilograms))
    for brick, (x, y), kilograms in bodies:
        force = kilograms * physics.gravity * 1000
        needed[5 * brick + 2] += force
        needed[5 * brick + 3] += y * force
        needed[5 * brick + 4] -= x * force
    return needed


def _arm(structure: Structure, brick: int, x: float, y: float, physics: Physics) -> tuple[float, float]:
    """Return the offset from the brick's centre, in millimetres."""
    body = structure.bricks[brick]
    pitch = physics.pitch * 1000
    return (x + 0.5 - body.x - body.h / 2) * pitch, (y + 0.5 - body.y - body.w / 2) * pitch


def _cells(brick: Brick) -> Iterator[tuple[int, int, int]]:
    return product(range(brick.x, brick.x + brick.h), range(brick.y, brick.y + brick.w), (brick.z,))
