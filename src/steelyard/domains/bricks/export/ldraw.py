"""Export to LDraw (``.ldr``), which LeoCAD, LDView and Studio open. The unit is 1/20 of a stud and −Y is up."""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.domains.bricks.structure import Brick, Structure

STUD, LAYER = 20, 24
ALONG_Z = "0 0 1 0 1 0 -1 0 0"
"""Rotation of parts from X, their direction in the LDraw library, to Z (our y)."""
ALONG_X = "-1 0 0 0 1 0 0 0 -1"
COLOURS: Mapping[str, int] = {"1x1": 14, "1x2": 25, "2x2": 10, "1x4": 73, "2x4": 4, "1x6": 22, "1x8": 3, "2x6": 1}
"""LDraw colour codes closest to the colours used in pictures."""
OTHER = 7


def ldraw(structure: Structure, *, title: str = "Brick structure", name: str = "structure.ldr") -> str:
    """Return the text of the file: one line and one building step per brick, in building order."""
    head = [f"0 {_one_line(title)}", f"0 Name: {_one_line(name)}", "0 Author: Steelyard"]
    steps = [line for brick in structure.bricks for line in (_brick(structure, brick), "0 STEP")]
    return "\n".join([*head, *steps]) + "\n"


def _brick(structure: Structure, brick: Brick) -> str:
    part = structure.world.library.by_dimensions[brick[:2]]
    if not part.ldraw:
        raise ValueError(f"part {part.name} has no LDraw number; set Part.ldraw to export it")
    x, y, z = _number(STUD * (brick.x + brick.h / 2)), -LAYER * brick.z, _number(STUD * (brick.y + brick.w / 2))
    turn = ALONG_Z if brick.h <= brick.w else ALONG_X
    return f"1 {COLOURS.get(part.name, OTHER)} {x} {y} {z} {turn} {part.ldraw.lower()}.dat"


def _number(value: float) -> str:
    return f"{value:g}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
