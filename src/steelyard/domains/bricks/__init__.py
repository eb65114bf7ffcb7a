"""Brick structures: text format, validity, connectivity and stability."""

from steelyard.domains.bricks.connectivity import floating, is_connected
from steelyard.domains.bricks.flaws import Flaw, InvalidStructureError, Reason
from steelyard.domains.bricks.parts import STANDARD, Library, Part
from steelyard.domains.bricks.stability import Load, Physics, Stability, assess, largest_pull
from steelyard.domains.bricks.structure import Brick, Structure, World
from steelyard.domains.bricks.text import Reading, parse, read, write

__all__ = [
    "STANDARD",
    "Brick",
    "Flaw",
    "InvalidStructureError",
    "Library",
    "Load",
    "Part",
    "Physics",
    "Reading",
    "Reason",
    "Stability",
    "Structure",
    "World",
    "assess",
    "floating",
    "is_connected",
    "largest_pull",
    "parse",
    "read",
    "write",
]
