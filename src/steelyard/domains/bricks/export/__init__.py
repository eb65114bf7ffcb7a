"""Exports: LDraw for brick editors, glTF and OBJ for mesh viewers."""

from steelyard.domains.bricks.export.gltf import gltf
from steelyard.domains.bricks.export.ldraw import ldraw
from steelyard.domains.bricks.export.obj import obj

__all__ = ["gltf", "ldraw", "obj"]
