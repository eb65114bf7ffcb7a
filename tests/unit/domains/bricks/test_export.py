"""LDraw, glTF and OBJ files, read back by independent code."""

from __future__ import annotations

import base64
import json
import random

import numpy as np
import pytest

from benchmarks.bricks.random_structures import random_structure
from steelyard.domains.bricks import Brick, Library, Part, Structure, World
from steelyard.domains.bricks.export import gltf, ldraw, obj
from steelyard.domains.bricks.export.mesh import LAYER, PITCH, SIDES, STUD_HEIGHT, STUD_RADIUS, brick_mesh

TWO = Structure((Brick(2, 4, 1, 3, 0), Brick(4, 1, 2, 3, 2)))


def test_ldraw_by_hand() -> None:
    bricks = Structure((*TWO.bricks, Brick(2, 2, 0, 0, 0)))
    assert ldraw(bricks, title="three\nbricks", name="two.ldr") == (
        "0 three bricks\n0 Name: two.ldr\n0 Author: Steelyard\n"
        "1 4 40 0 100 0 0 1 0 1 0 -1 0 0 3001.dat\n0 STEP\n"
        "1 73 80 -48 70 -1 0 0 0 1 0 0 0 -1 3010.dat\n0 STEP\n"
        "1 10 20 0 20 0 0 1 0 1 0 -1 0 0 3003.dat\n0 STEP\n"
    )


def test_ldraw_parts_match_the_positions_of_the_bricks() -> None:
    """LDraw parts are centred and extend along X; rotated and translated, their corners are those of the brick."""
    for brick in (Brick(2, 6, 3, 1, 4), Brick(6, 2, 3, 1, 4), Brick(1, 8, 0, 0, 0), Brick(1, 1, 7, 2, 1)):
        line = ldraw(Structure((brick,))).splitlines()[3].split()
        place, turn = np.array(line[2:5], float), np.array(line[5:14], float).reshape(3, 3)
        long, short = max(brick[:2]), min(brick[:2])
        corners = np.array([(10 * long * a, 24 * b, 10 * short * c) for a in (-1, 1) for b in (0, 1) for c in (-1, 1)])
        placed = corners @ turn.T + place
        assert placed.min(axis=0)[[0, 2]].tolist() == [20 * brick.x, 20 * brick.y]
        assert placed.max(axis=0)[[0, 2]].tolist() == [20 * (brick.x + brick.h), 20 * (brick.y + brick.w)]
        assert np.linalg.det(turn) == pytest.approx(1.0), "rotated, not mirrored"


def test_a_part_without_an_ldraw_number_is_reported() -> None:
    world = World(library=Library((Part(3, 3, 1e-3),)))
    with pytest.raises(ValueError, match="part 3x3 has no LDraw number"):
        ldraw(Structure((Brick(3, 3, 0, 0, 0),), world))


def volume(position: np.ndarray, triangles: np.ndarray) -> float:
    """Return the volume by the divergence theorem; positive if all triangles face outwards."""
    a, b, c = (position[triangles[:, corner]].astype(float) for corner in range(3))
    return float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6)


def test_the_mesh_is_a_box_with_studs_that_face_outwards() -> None:
    mesh = brick_mesh(2, 4)
    box = (2 * PITCH - 0.0002) * (4 * PITCH - 0.0002) * LAYER
    polygon = SIDES / 2 * np.sin(2 * np.pi / SIDES) * STUD_RADIUS**2
    # A stud has no floor: the missing disc at height LAYER adds the volume of a cone with its apex at the origin.
    open_floor = polygon * LAYER / 3
    expected = box + 8 * (polygon * STUD_HEIGHT + open_floor)
    assert volume(mesh.position_V3, mesh.triangle_T3) == pytest.approx(expected, rel=1e-4)
    a, b, c = (mesh.position_V3[mesh.triangle_T3[:, corner]] for corner in range(3))
    facing = np.einsum("ij,ij->i", np.cross(b - a, c - a), mesh.normal_V3[mesh.triangle_T3[:, 0]])
    assert (facing > 0).all()


def test_gltf_can_be_read_back() -> None:
    structure = random_structure(8, random.Random(2))
    document = json.loads(gltf(structure))
    data = base64.b64decode(document["buffers"][0]["uri"].partition(",")[2])
    assert document["buffers"][0]["byteLength"] == len(data)
    assert len(document["nodes"]) == len(document["scenes"][0]["nodes"]) == 8

    def values(number: int) -> np.ndarray:
        accessor = document["accessors"][number]
        view = document["bufferViews"][accessor["bufferView"]]
        kind, width = {5126: ("<f4", 3), 5125: ("<u4", 1)}[accessor["componentType"]]
        count = accessor["count"] * width
        return np.frombuffer(data, kind, count, view["byteOffset"]).reshape(-1, width)

    for brick, node in zip(structure.bricks, document["nodes"], strict=True):
        (primitive,) = document["meshes"][node["mesh"]]["primitives"]
        position = values(primitive["attributes"]["POSITION"]) + np.array(node["translation"])
        triangles = values(primitive["indices"]).reshape(-1, 3)
        low, high = position.min(axis=0), position.max(axis=0)
        assert low == pytest.approx([brick.x * PITCH, brick.z * LAYER, -(brick.y + brick.w) * PITCH], abs=2e-4)
        assert high[0] == pytest.approx((brick.x + brick.h) * PITCH, abs=2e-4)
        assert high[2] == pytest.approx(-brick.y * PITCH, abs=2e-4)
        assert volume(position - low, triangles) > 0, "not inside out"
    with pytest.raises(ValueError, match="no bricks to export"):
        gltf(Structure(()))


def test_obj_can_be_read_back() -> None:
    text, materials = obj(TWO, materials="two.mtl")
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["mtllib", "two.mtl"]
    used = {line[1] for line in lines if line[0] == "usemtl"}
    assert used == {"part-2x4", "part-1x4"} == {line.split()[1] for line in materials.splitlines() if "newmtl" in line}
    position = np.array([line[1:] for line in lines if line[0] == "v"], float)
    faces = np.array([[corner.split("//")[0] for corner in line[1:]] for line in lines if line[0] == "f"], int)
    assert faces.min() == 1
    assert faces.max() == len(position)
    assert position.min(axis=0) == pytest.approx([PITCH, 3 * PITCH, 0], abs=2e-4)
    assert position.max(axis=0) == pytest.approx([6 * PITCH, 7 * PITCH, 3 * LAYER + STUD_HEIGHT], abs=2e-4)
