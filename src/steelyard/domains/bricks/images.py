"""Rotations, reflections and translations of a structure and its loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from steelyard.domains.bricks.stability.physics import Load
from steelyard.domains.bricks.structure import Brick, Structure

LoadedStructure = tuple[Structure, tuple[Load, ...]]


def turned(structure: Structure, loads: Sequence[Load] = ()) -> LoadedStructure:
    """Rotate the structure and its world by 90 degrees: (x, y) → (y, X − 1 − x)."""
    x_size, y_size, z_size = structure.world.size
    bricks = tuple(Brick(w, h, y, x_size - x - h, z) for h, w, x, y, z in structure.bricks)
    world = replace(structure.world, size=(y_size, x_size, z_size))
    return Structure(bricks, world), tuple(Load(y, x_size - 1 - x, z, kg) for x, y, z, kg in loads)


def mirrored(structure: Structure, loads: Sequence[Load] = ()) -> LoadedStructure:
    """Reflect along x: x → X − 1 − x."""
    x_size = structure.world.size[0]
    bricks = tuple(brick._replace(x=x_size - brick.x - brick.h) for brick in structure.bricks)
    return Structure(bricks, structure.world), tuple(load._replace(x=x_size - 1 - load.x) for load in loads)


def moved(structure: Structure, dx: int, dy: int, loads: Sequence[Load] = ()) -> LoadedStructure:
    """Translate the structure along the ground, without checking the bounds of the world."""
    bricks = tuple(brick._replace(x=brick.x + dx, y=brick.y + dy) for brick in structure.bricks)
    return Structure(bricks, structure.world), tuple(load._replace(x=load.x + dx, y=load.y + dy) for load in loads)


def images(structure: Structure, loads: Sequence[Load] = ()) -> Iterator[LoadedStructure]:
    """Yield the eight images of a structure: four rotations, each also reflected."""
    image: LoadedStructure = (structure, tuple(loads))
    for _ in range(4):
        yield image
        yield mirrored(*image)
        image = turned(*image)


def at_origin(structure: Structure, loads: Sequence[Load] = ()) -> LoadedStructure:
    """Translate the structure so that its smallest x and y are 0."""
    if not structure.bricks:
        return structure, tuple(loads)
    left, front = min(brick.x for brick in structure.bricks), min(brick.y for brick in structure.bricks)
    return moved(structure, -left, -front, loads)
