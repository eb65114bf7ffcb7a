"""Equations of static equilibrium: the effect of each unknown force on each brick.

There are five residuals per brick; the torque about the vertical axis is omitted. Units: the capacity of a contact
point is 1 and the width of a stud is 1, so H is the height of a layer in studs.

- F_x = Σ_bottom u_x − Σ_top u_x ± e_x, and F_y analogously
- F_z = Σ_bottom s − Σ_top s − weight
- τ_1 = Σ_bottom [(y − c_y) s + H/2 u_y] − Σ_top [(y − c_y) s − H/2 u_y] ± H/2 e_y
- τ_2 = −Σ_bottom [(x − c_x) s + H/2 u_x] + Σ_top [(x − c_x) s − H/2 u_x] ∓ H/2 e_x

Here s is the vertical force on the upper brick at a contact point (positive pushes, negative pulls), u the horizontal
force on the upper brick of a contact, and e the pressing force between neighbours. The ground pushes and pulls like a
brick. Source: StableLego (Liu et al., IEEE RA-L 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.domains.bricks.contacts import Contacts
from steelyard.domains.bricks.stability.physics import Load, Physics
from steelyard.domains.bricks.structure import Structure

Floats = NDArray[np.float64]
Index = NDArray[np.int32]

NARROW = np.array([(0, -1 / 4), (-1 / 4, 0), (0, 1 / 4), (1 / 4, 0)])
"""Contact points of a stud under a brick of width 1, in studs from the centre of the cell."""
WIDE = np.array([(1 / 8, -1 / 8), (-1 / 4, 0), (1 / 8, 1 / 8)])
"""Contact points under wider bricks. These points are not symmetric in x, so mirror images may differ; see
``symmetry``."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Unknowns of one kind: unknown ``n`` has the coefficients ``value_NK[n]`` in the rows ``row_NK[n]``.

    Row 5 b + r is residual r of brick b. The rows of the ground are dropped later, because the ground cannot move.
    """

    row_NK: Index
    value_NK: Floats

    def __len__(self) -> int:
        return len(self.row_NK)


@dataclass(frozen=True, eq=False)
class Statics:
    """All unknown forces and the weights that they must balance."""

    bricks: int
    upper_P: Index
    lower_P: Index
    """Index of the brick below each contact point; the ground has the index ``bricks``."""
    x_P: Floats
    y_P: Floats
    points: Columns
    """Vertical forces s, one per contact point."""
    shears: Columns
    """Horizontal forces: u_x of all contacts, then u_y."""
    presses: Columns
    """Pressing forces e between neighbours."""
    weight_R: Floats
    """Right-hand side: coefficients · unknowns = weight."""

    @property
    def rows(self) -> int:
        return 5 * self.bricks


def statics(structure: Structure, touching: Contacts, loads: Sequence[Load], physics: Physics) -> Statics:
    """Set up the equations of a structure under its own weight and the loads."""
    h, w, x, y, _ = structure.array_B5.T
    bricks = len(structure)
    centre_x, centre_y = np.append(x + (h - 1) / 2, 0.0), np.append(y + (w - 1) / 2, 0.0)
    contact_P, x_P, y_P = contact_points(touching, np.minimum(h, w) == 1)
    upper_P, lower_P = touching.upper_C[contact_P], touching.lower_C[contact_P]
    return Statics(
        bricks,
        upper_P,
        lower_P,
        x_P,
        y_P,
        _points(upper_P, lower_P, x_P, y_P, centre_x, centre_y),
        _shears(touching.upper_C, touching.lower_C, physics.half_layer),
        _presses(touching, physics.half_layer),
        weights(structure, loads, physics),
    )


def contact_points(touching: Contacts, narrow_B: NDArray[np.bool_]) -> tuple[Index, Floats, Floats]:
    """Return contact, x and y of every contact point: four per contact under a narrow brick, three under a wide one."""
    narrow_C = narrow_B[touching.upper_C]
    narrow, wide = np.flatnonzero(narrow_C).astype(np.int32), np.flatnonzero(~narrow_C).astype(np.int32)
    contact_P = np.concatenate([np.repeat(narrow, len(NARROW)), np.repeat(wide, len(WIDE))])
    offset_P2: Floats = np.concatenate([np.tile(NARROW, (len(narrow), 1)), np.tile(WIDE, (len(wide), 1))])
    x_P: Floats = touching.x_C[contact_P] + offset_P2[:, 0]
    y_P: Floats = touching.y_C[contact_P] + offset_P2[:, 1]
    return contact_P, x_P, y_P


def weights(structure: Structure, loads: Sequence[Load], physics: Physics) -> Floats:
    """Return the right-hand side: F_z = m g, and the torques τ_1 and τ_2 of off-centre loads."""
    weight_R = np.zeros(5 * len(structure))
    weight_R[2::5] = structure.mass_B * physics.gravity / physics.capacity
    for load in loads:
        brick = brick_at(structure, load)
        h, w, x, y, _ = structure.bricks[brick]
        force = load.kilograms * physics.gravity / physics.capacity
        weight_R[5 * brick + 2] += force
        weight_R[5 * brick + 3] += force * (load.y - y - (w - 1) / 2)
        weight_R[5 * brick + 4] -= force * (load.x - x - (h - 1) / 2)
    return weight_R


def brick_at(structure: Structure, load: Load) -> int:
    """Return the index of the brick under a load."""
    if not (np.isfinite(load.kilograms) and load.kilograms >= 0):
        raise ValueError(f"load of {load.kilograms} kg must be a non-negative number")
    for number, (h, w, x, y, z) in enumerate(structure.bricks):
        if z == load.z and x <= load.x < x + h and y <= load.y < y + w:
            return number
    raise ValueError(
        f"load of {load.kilograms} kg at ({load.x},{load.y},{load.z}): there is no brick at that "
        "position; move the load"
    )


VERTICAL = np.array([2, 3, 4], np.int32)
"""Residuals affected by a vertical force: F_z, τ_1, τ_2."""
HORIZONTAL = np.array([(0, 4), (1, 3)], np.int32)
"""Residuals affected by a horizontal force: F_x and τ_2 along x, F_y and τ_1 along y."""
SHEAR = np.array([(1.0, -1.0, -1.0, -1.0), (1.0, 1.0, -1.0, 1.0)])
PRESS = np.array([(1.0, -1.0, -1.0, 1.0), (1.0, 1.0, -1.0, -1.0)])
"""Coefficients along x and along y; torques are in half layers. As published, a pressing force acts at the bottom edge,
so it has the signs of the bottom face.
"""


def _points(upper: Index, lower: Index, x: Floats, y: Floats, centre_x: Floats, centre_y: Floats) -> Columns:
    row_P6 = np.empty((len(upper), 6), np.int32)
    row_P6[:, :3] = (5 * upper)[:, None] + VERTICAL
    row_P6[:, 3:] = (5 * lower)[:, None] + VERTICAL
    value_P6 = np.empty((len(upper), 6))
    value_P6[:, 0], value_P6[:, 3] = 1.0, -1.0
    value_P6[:, 1], value_P6[:, 4] = y - centre_y[upper], centre_y[lower] - y
    value_P6[:, 2], value_P6[:, 5] = centre_x[upper] - x, x - centre_x[lower]
    return Columns(row_P6, value_P6)


def _shears(upper: Index, lower: Index, half: float) -> Columns:
    """Shear along x for all contacts, then along y: it acts on the upper brick's bottom and against the lower one's
    top.
    """
    row_2C4 = np.empty((2, len(upper), 4), np.int32)
    row_2C4[:, :, :2] = (5 * upper)[:, None] + HORIZONTAL[:, None]
    row_2C4[:, :, 2:] = (5 * lower)[:, None] + HORIZONTAL[:, None]
    value_U4 = np.repeat(SHEAR * _arms(half), len(upper), axis=0)
    return Columns(row_2C4.reshape(-1, 4), value_U4)


def _presses(touching: Contacts, half: float) -> Columns:
    row_E4 = np.empty((len(touching.axis_E), 4), np.int32)
    along_E2 = HORIZONTAL[touching.axis_E]
    row_E4[:, :2] = (5 * touching.after_E)[:, None] + along_E2
    row_E4[:, 2:] = (5 * touching.before_E)[:, None] + along_E2
    return Columns(row_E4, (PRESS * _arms(half))[touching.axis_E])


def _arms(half: float) -> Floats:
    return np.array([1.0, half, 1.0, half])
