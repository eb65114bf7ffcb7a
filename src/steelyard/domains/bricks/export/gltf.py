"""Export to a self-contained glTF 2.0 file, which browsers, Blender and system viewers open.

Units are metres and +Y is up. There is one mesh per oriented part and one node per brick.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from steelyard.domains.bricks.export.mesh import LAYER, PITCH, Mesh, brick_mesh
from steelyard.domains.bricks.render.colours import of_part
from steelyard.domains.bricks.structure import Brick, Structure
from steelyard.drawing.scene import Colour

FLOAT, UNSIGNED = 5126, 5125
VERTICES, INDICES = 34962, 34963


def gltf(structure: Structure) -> str:
    """Return the text of the ``.gltf`` file, with embedded data."""
    footprints = list(dict.fromkeys(brick[:2] for brick in structure.bricks))
    if not footprints:
        raise ValueError("a glTF scene cannot be empty; the structure has no bricks to export")
    data, views, accessors, meshes, materials = bytearray(), [], [], [], []
    for number, footprint in enumerate(footprints):
        part = structure.world.library.by_dimensions[footprint]
        materials.append(_material(part.name, of_part(part)))
        attributes, indices = _store(brick_mesh(*footprint), data, views, accessors)
        primitive = {"attributes": attributes, "indices": indices, "material": number}
        meshes.append({"name": f"{footprint[0]}x{footprint[1]}", "primitives": [primitive]})
    nodes = [_node(number, brick, footprints.index(brick[:2])) for number, brick in enumerate(structure.bricks, 1)]
    uri = "data:application/octet-stream;base64," + base64.b64encode(data).decode()
    document = {
        "asset": {"version": "2.0", "generator": "Steelyard"},
        "scene": 0,
        "scenes": [{"nodes": list(range(len(nodes)))}],
        "nodes": nodes,
        "meshes": meshes,
        "materials": materials,
        "accessors": accessors,
        "bufferViews": views,
        "buffers": [{"byteLength": len(data), "uri": uri}],
    }
    return json.dumps(document)


def _store(mesh: Mesh, data: bytearray, views: list[Any], accessors: list[Any]) -> tuple[dict[str, int], int]:
    """Append the mesh, rotated from z-up to Y-up: (x, y, z) → (x, z, −y)."""
    position, normal = (_y_up(values) for values in (mesh.position_V3, mesh.normal_V3))
    index = mesh.triangle_T3.ravel()
    numbers: list[int] = []
    for values, kind, component, target in (
        (position, "VEC3", FLOAT, VERTICES),
        (normal, "VEC3", FLOAT, VERTICES),
        (index, "SCALAR", UNSIGNED, INDICES),
    ):
        raw = values.tobytes()
        views.append({"buffer": 0, "byteOffset": len(data), "byteLength": len(raw), "target": target})
        accessor = {"bufferView": len(views) - 1, "componentType": component, "count": len(values), "type": kind}
        if values is position:
            accessor |= {"min": position.min(axis=0).tolist(), "max": position.max(axis=0).tolist()}
        accessors.append(accessor)
        numbers.append(len(accessors) - 1)
        data += raw
    return {"POSITION": numbers[0], "NORMAL": numbers[1]}, numbers[2]


def _y_up(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.stack([values[:, 0], values[:, 2], -values[:, 1]], axis=1), dtype="<f4")


def _node(number: int, brick: Brick, mesh: int) -> dict[str, Any]:
    corner = [round(brick.x * PITCH, 6), round(brick.z * LAYER, 6), round(-brick.y * PITCH, 6)]
    return {"name": f"brick {number}", "mesh": mesh, "translation": corner}


def _material(name: str, colour: Colour) -> dict[str, Any]:
    """Build a material; glTF colours are linear, the part colours are sRGB."""
    linear = [round(((part / 255 + 0.055) / 1.055) ** 2.4, 4) for part in colour]
    surface = {"baseColorFactor": [*linear, 1.0], "metallicFactor": 0.0, "roughnessFactor": 0.4}
    return {"name": f"part {name}", "pbrMetallicRoughness": surface}
