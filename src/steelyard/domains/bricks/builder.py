"""A builder that makes mistakes: examples to begin from, of which a known share succeeds.

It starts from a plain design and, with a chosen probability, spoils it: it misreads the brief, loses a brick, leaves
off early, puts a brick beside its place or adds one that nobody asked for. Nothing it builds collides, leaves the world
or floats, so every action space can write it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from steelyard.domains.bricks.actions import in_building_order
from steelyard.domains.bricks.briefs import Brief, Shape
from steelyard.domains.bricks.briefs.base import BESIDE_FORM
from steelyard.domains.bricks.connectivity import floating
from steelyard.domains.bricks.designs import Rng, design
from steelyard.domains.bricks.structure import Brick, Site, Structure, World
from steelyard.domains.bricks.text import in_raster_order

IMPERFECTION = 0.65
"""How often a structure is spoilt by default."""
MISREAD = 0.4
"""How often spoiling means that another brief is served."""
AGAIN = 0.5
"""How often one mistake is followed by another."""
WANDER = 2
"""How far from the middle of the world a structure may be, in cells."""
TRIES = 30
UNREAD = (*BESIDE_FORM, "number")
"""Numbers that a design does not depend on."""
SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1))


def build(
    brief: Brief, world: World, rng: Rng, *, imperfection: float = IMPERFECTION, wander: int = WANDER
) -> Structure:
    """A structure for the brief, spoilt with a probability of ``imperfection``, in an order in which every brick
    touches the ground or an earlier one.
    """
    if rng.random() < imperfection:
        return _spoilt(brief, world, rng, wander)
    return _served(brief, world, rng, wander)


def settled(bricks: list[Brick], world: World) -> Structure:
    """The bricks without those that float, row by row from the bottom up, but each after what holds it."""
    whole = Structure(tuple(bricks), world)
    afloat = set(floating(whole))
    held = Structure(tuple(b for n, b in enumerate(bricks) if n not in afloat), world)
    return in_building_order(in_raster_order(held))


def misread(brief: Brief, rng: Rng) -> Brief:
    """The same brief with one of its numbers off by one or two; ``ValueError`` if that is none."""
    off = int(rng.choice([-2, -1, 1, 2]))
    if isinstance(brief, Shape):
        place = int(rng.integers(len(brief.heights)))
        heights = [height + off * (n == place) for n, height in enumerate(brief.heights)]
        return Shape(brief.depth, tuple(heights))
    names = [f.name for f in fields(brief) if f.name not in UNREAD and isinstance(getattr(brief, f.name), int)]
    if not names:
        raise ValueError(f"a {brief.kind} has no number to misread")
    name = names[int(rng.integers(len(names)))]
    changed: dict[str, Any] = {name: getattr(brief, name) + off}
    return replace(brief, **changed)


def lose(bricks: list[Brick], _world: World, rng: Rng) -> list[Brick]:
    """One brick is missing."""
    if len(bricks) == 1:
        return bricks
    lost = int(rng.integers(len(bricks)))
    return bricks[:lost] + bricks[lost + 1 :]


def leave_off(bricks: list[Brick], _world: World, rng: Rng) -> list[Brick]:
    """Only the first part was built, from half of it up."""
    return bricks[: int(rng.integers((len(bricks) + 1) // 2, max(len(bricks), 2)))]


def shift(bricks: list[Brick], world: World, rng: Rng) -> list[Brick]:
    """One brick lies a stud beside its place, if there is room for it."""
    for _ in range(TRIES):
        place, (dx, dy) = int(rng.integers(len(bricks))), SIDES[int(rng.integers(len(SIDES)))]
        others = bricks[:place] + bricks[place + 1 :]
        moved = bricks[place]._replace(x=bricks[place].x + dx, y=bricks[place].y + dy)
        if _fits(moved, others, world):
            return [*others, moved]
    return lose(bricks, world, rng)


def add(bricks: list[Brick], world: World, rng: Rng) -> list[Brick]:
    """One brick too many, upon another."""
    ways = world.library.dimensions
    for _ in range(TRIES):
        (h, w), below = ways[int(rng.integers(len(ways)))], bricks[int(rng.integers(len(bricks)))]
        x = int(rng.integers(below.x - h + 1, below.x + below.h))
        y = int(rng.integers(below.y - w + 1, below.y + below.w))
        extra = Brick(h, w, x, y, below.z + 1)
        if _fits(extra, bricks, world):
            return [*bricks, extra]
    return lose(bricks, world, rng)


MISTAKES: tuple[Callable[[list[Brick], World, Rng], list[Brick]], ...] = (lose, leave_off, shift, add)


def _served(brief: Brief, world: World, rng: Rng, wander: int) -> Structure:
    return settled(_somewhere(design(brief, world.library, rng), world, rng, wander), world)


def _spoilt(brief: Brief, world: World, rng: Rng, wander: int) -> Structure:
    """One mistake, often more, and one more where not all of the form is needed; the first may be that another brief
    is served.
    """
    misreads = rng.random() < MISREAD
    structure = (_misserved if misreads else _served)(brief, world, rng, wander)
    for _ in range(int(rng.geometric(1 - AGAIN)) + (brief.enough < 1) - misreads):
        structure = _mistaken(structure, world, rng)
    return structure


def _misserved(brief: Brief, world: World, rng: Rng, wander: int) -> Structure:
    """The design of a misread brief; where no misreading can be built, the brief's own with a mistake in it."""
    for _ in range(TRIES):
        try:
            return _served(misread(brief, rng), world, rng, wander)
        except ValueError:
            continue
    return _mistaken(_served(brief, world, rng, wander), world, rng)


def _mistaken(structure: Structure, world: World, rng: Rng) -> Structure:
    """With one mistake after which something is left."""
    for _ in range(TRIES):
        mistake = MISTAKES[int(rng.integers(len(MISTAKES)))]
        left = settled(mistake(list(structure.bricks), world, rng), world)
        if left.bricks:
            return left
    return structure


def _somewhere(bricks: list[Brick], world: World, rng: Rng, wander: int) -> list[Brick]:
    """The bricks about the middle of the world; ``ValueError`` if they do not fit into it."""
    x, y = min(b.x for b in bricks), min(b.y for b in bricks)
    spare_x = world.size[0] - max(b.x + b.h for b in bricks) + x
    spare_y = world.size[1] - max(b.y + b.w for b in bricks) + y
    if min(spare_x, spare_y) < 0 or max(b.z for b in bricks) >= world.size[2]:
        raise ValueError(f"a structure of {len(bricks)} bricks does not fit into a world of {world.size}")
    to_x, to_y = (
        min(max(spare // 2 + int(rng.integers(-wander, wander + 1)), 0), spare) for spare in (spare_x, spare_y)
    )
    return [b._replace(x=b.x - x + to_x, y=b.y - y + to_y) for b in bricks]


def _fits(brick: Brick, others: list[Brick], world: World) -> bool:
    site = Site(world)
    for other in others:
        site.add(other)
    return site.problem(brick) is None
