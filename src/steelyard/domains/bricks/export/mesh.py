"""Triangle meshes of bricks: a box with studs, in metres, z-up, with the lowest corner at the origin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PITCH, LAYER = 0.008, 0.0096
GAP = 0.0001
"""Gap on each side of a brick, so that neighbouring bricks can be distinguished."""
STUD_RADIUS, STUD_HEIGHT = 0.0024, 0.0017
SIDES = 16

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Mesh:
    """Vertices with normals, and triangles in counter-clockwise order as seen from outside."""

    position_V3: Floats
    normal_V3: Floats
    triangle_T3: NDArray[np.uint32]


def brick_mesh(h: int, w: int) -> Mesh:
    """Build the mesh of an ``h`` by ``w`` brick with all studs."""
    low = np.array([GAP, GAP, 0.0])
    high = np.array([h * PITCH - GAP, w * PITCH - GAP, LAYER])
    centres = [((i + 0.5) * PITCH, (j + 0.5) * PITCH) for i in range(h) for j in range(w)]
    return _joined([_box(low, high), *(_stud(x, y) for x, y in centres)])


def _box(low: NDArray[np.float64], high: NDArray[np.float64]) -> Mesh:
    """Build six faces of four vertices each, ordered so that the normals point outwards."""
    positions, normals = [], []
    for axis in range(3):
        one, other = (axis + 1) % 3, (axis + 2) % 3
        for side, corners in ((high, ((0, 0), (1, 0), (1, 1), (0, 1))), (low, ((0, 0), (0, 1), (1, 1), (1, 0)))):
            normal = np.zeros(3)
            normal[axis] = 1.0 if side is high else -1.0
            for a, b in corners:
                corner = np.zeros(3)
                corner[axis], corner[one], corner[other] = side[axis], (low, high)[a][one], (low, high)[b][other]
                positions.append(corner)
                normals.append(normal)
    return _quads(np.array(positions), np.array(normals))


def _stud(x: float, y: float) -> Mesh:
    """Build the walls of a stud from quads and its lid from a triangle fan."""
    angle = 2 * np.pi * np.arange(SIDES + 1) / SIDES
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    edge = np.array([x, y]) + STUD_RADIUS * ring
    walls, normals = [], []
    for k in range(SIDES):
        for point, height in ((k, 0.0), (k + 1, 0.0), (k + 1, STUD_HEIGHT), (k, STUD_HEIGHT)):
            walls.append((*edge[point], LAYER + height))
            normals.append((*ring[point], 0.0))
    lid = np.array([(x, y, LAYER + STUD_HEIGHT), *((*point, LAYER + STUD_HEIGHT) for point in edge[:SIDES])])
    fan = [(0, 1 + k, 1 + (k + 1) % SIDES) for k in range(SIDES)]
    top = Mesh(
        lid.astype(np.float32), np.tile(np.array([0, 0, 1], np.float32), (len(lid), 1)), np.array(fan, np.uint32)
    )
    return _joined([_quads(np.array(walls), np.array(normals)), top])


def _quads(position: NDArray[np.float64], normal: NDArray[np.float64]) -> Mesh:
    """Build a mesh in which every four vertices form a face."""
    first = 4 * np.arange(len(position) // 4, dtype=np.uint32)[:, None]
    triangles = (first + np.array([0, 1, 2, 0, 2, 3], np.uint32)).reshape(-1, 3)
    return Mesh(position.astype(np.float32), normal.astype(np.float32), triangles)


def _joined(meshes: list[Mesh]) -> Mesh:
    starts = np.cumsum([0, *(len(mesh.position_V3) for mesh in meshes[:-1])]).astype(np.uint32)
    return Mesh(
        np.concatenate([mesh.position_V3 for mesh in meshes]),
        np.concatenate([mesh.normal_V3 for mesh in meshes]),
        np.concatenate([mesh.triangle_T3 + start for mesh, start in zip(meshes, starts, strict=True)]),
    )
