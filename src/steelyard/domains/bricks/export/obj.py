"""Export to Wavefront OBJ with a material file, in metres, z-up."""

from __future__ import annotations

import numpy as np

from steelyard.domains.bricks.export.mesh import LAYER, PITCH, brick_mesh
from steelyard.domains.bricks.render.colours import of_part
from steelyard.domains.bricks.structure import Structure


def obj(structure: Structure, *, materials: str = "structure.mtl") -> tuple[str, str]:
    """Return the text of the ``.obj`` and ``.mtl`` files; the first references the second as ``materials``."""
    parts = structure.world.library.by_dimensions
    meshes = {footprint: brick_mesh(*footprint) for footprint in {brick[:2] for brick in structure.bricks}}
    lines, first = [f"mtllib {materials}"], 1
    for number, brick in enumerate(structure.bricks, 1):
        mesh = meshes[brick[:2]]
        position_V3 = mesh.position_V3 + np.array([brick.x * PITCH, brick.y * PITCH, brick.z * LAYER], np.float32)
        lines += [f"o brick-{number}", f"usemtl part-{parts[brick[:2]].name}"]
        lines += [f"v {x:.5f} {y:.5f} {z:.5f}" for x, y, z in position_V3.tolist()]
        lines += [f"vn {x:.4f} {y:.4f} {z:.4f}" for x, y, z in mesh.normal_V3.tolist()]
        lines += [f"f {a}//{a} {b}//{b} {c}//{c}" for a, b, c in (mesh.triangle_T3 + first).tolist()]
        first += len(position_V3)
    used = {parts[footprint].name: of_part(parts[footprint]) for footprint in meshes}
    colours = {name: " ".join(f"{part / 255:.3f}" for part in colour) for name, colour in sorted(used.items())}
    return "\n".join(lines) + "\n", "".join(f"newmtl part-{name}\nKd {colour}\n\n" for name, colour in colours.items())
