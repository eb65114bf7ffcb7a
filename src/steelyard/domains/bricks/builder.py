"""An imperfect builder: generates warm-start examples with a known success rate.

The builder starts from a simple design and, with a given probability, introduces mistakes: it misreads the brief, drops
a brick, stops early, displaces a brick or adds a superfluous one. Bricks never collide, leave the world or float,
so every action space can express them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from steelyard.domains.bricks.actions import in_building_order
from steelyard.domains.bricks.briefs import Brief, Shape
from steelyard.domains.bricks.briefs.base import NOT_FORM
from steelyard.domains.bricks.connectivity import floating
from steelyard.domains.bricks.designs import Rng, design
from steelyard.domains.bricks.structure import Brick, Site, Structure, World
from steelyard.domains.bricks.text import in_raster_order

IMPERFECTION = 0.65
"""Default probability that a structure contains mistakes."""
MISREAD = 0.4
"""Probability that a faulty structure was built for a misread brief."""
ANOTHER_MISTAKE = 0.5
"""Probability that a mistake is followed by another."""
MAX_OFFSET = 2
"""Maximum distance of a structure from the centre of the world, in cells."""
MAX_ATTEMPTS = 30
NOT_IN_DESIGN = (*NOT_FORM, "number")
"""Parameters that do not affect a design."""
SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1))


def build(
    brief: Brief, world: World, rng: Rng, *, imperfection: float = IMPERFECTION, max_offset: int = MAX_OFFSET
) -> Structure:
    """Build a structure for the brief that contains mistakes with probability ``imperfection``. Every brick touches the
    ground or an earlier brick.
    """
    if rng.random() < imperfection:
        return _faulty(brief, world, rng, max_offset)
    return _correct(brief, world, rng, max_offset)


def without_floating(bricks: list[Brick], world: World) -> Structure:
    """Remove floating bricks and sort the rest in raster order, with each brick after its support."""
    afloat = set(floating(Structure(tuple(bricks), world)))
    grounded = Structure(tuple(b for n, b in enumerate(bricks) if n not in afloat), world)
    return in_building_order(in_raster_order(grounded))


def misread(brief: Brief, rng: Rng) -> Brief:
    """Change one parameter of the brief by one or two; raise ``ValueError`` if the result is not a valid brief."""
    off = int(rng.choice([-2, -1, 1, 2]))
    if isinstance(brief, Shape):
        index = int(rng.integers(len(brief.heights)))
        heights = [height + off * (n == index) for n, height in enumerate(brief.heights)]
        return Shape(brief.depth, tuple(heights))
    names = [f.name for f in fields(brief) if f.name not in NOT_IN_DESIGN and isinstance(getattr(brief, f.name), int)]
    if not names:
        raise ValueError(
            f"cannot misread a {brief.kind} brief: none of its parameters affects the design; choose another kind"
        )
    name = names[int(rng.integers(len(names)))]
    changed: dict[str, Any] = {name: getattr(brief, name) + off}
    return replace(brief, **changed)


def drop(bricks: list[Brick], _world: World, rng: Rng) -> list[Brick]:
    """Drop a random brick."""
    if len(bricks) == 1:
        return bricks
    dropped = int(rng.integers(len(bricks)))
    return bricks[:dropped] + bricks[dropped + 1 :]


def stop_early(bricks: list[Brick], _world: World, rng: Rng) -> list[Brick]:
    """Keep only the first bricks, at least half of them."""
    return bricks[: int(rng.integers((len(bricks) + 1) // 2, max(len(bricks), 2)))]


def shift(bricks: list[Brick], world: World, rng: Rng) -> list[Brick]:
    """Move a random brick by one stud, if there is room."""
    for _ in range(MAX_ATTEMPTS):
        index, (dx, dy) = int(rng.integers(len(bricks))), SIDES[int(rng.integers(len(SIDES)))]
        others = bricks[:index] + bricks[index + 1 :]
        moved = bricks[index]._replace(x=bricks[index].x + dx, y=bricks[index].y + dy)
        if _fits(moved, others, world):
            return [*others, moved]
    return drop(bricks, world, rng)


def add(bricks: list[Brick], world: World, rng: Rng) -> list[Brick]:
    """Add a superfluous brick on top of another."""
    footprints = world.library.dimensions
    for _ in range(MAX_ATTEMPTS):
        (h, w), below = footprints[int(rng.integers(len(footprints)))], bricks[int(rng.integers(len(bricks)))]
        x = int(rng.integers(below.x - h + 1, below.x + below.h))
        y = int(rng.integers(below.y - w + 1, below.y + below.w))
        extra = Brick(h, w, x, y, below.z + 1)
        if _fits(extra, bricks, world):
            return [*bricks, extra]
    return drop(bricks, world, rng)


MISTAKES: tuple[Callable[[list[Brick], World, Rng], list[Brick]], ...] = (drop, stop_early, shift, add)


def _correct(brief: Brief, world: World, rng: Rng, max_offset: int) -> Structure:
    return without_floating(_near_centre(design(brief, world.library, rng), world, rng, max_offset), world)


def _faulty(brief: Brief, world: World, rng: Rng, max_offset: int) -> Structure:
    """Build with one or more mistakes, the first of which may be a misread brief. Briefs that tolerate deviations get
    one extra mistake.
    """
    misreads = rng.random() < MISREAD
    structure = (_misread_design if misreads else _correct)(brief, world, rng, max_offset)
    for _ in range(int(rng.geometric(1 - ANOTHER_MISTAKE)) + (brief.enough < 1) - misreads):
        structure = _with_mistake(structure, world, rng)
    return structure


def _misread_design(brief: Brief, world: World, rng: Rng, max_offset: int) -> Structure:
    """Build a misread brief or, if none can be built, the brief itself with a mistake."""
    for _ in range(MAX_ATTEMPTS):
        try:
            return _correct(misread(brief, rng), world, rng, max_offset)
        except ValueError:
            continue
    return _with_mistake(_correct(brief, world, rng, max_offset), world, rng)


def _with_mistake(structure: Structure, world: World, rng: Rng) -> Structure:
    """Apply a random mistake that leaves at least one brick."""
    for _ in range(MAX_ATTEMPTS):
        mistake = MISTAKES[int(rng.integers(len(MISTAKES)))]
        changed = without_floating(mistake(list(structure.bricks), world, rng), world)
        if changed.bricks:
            return changed
    return structure


def _near_centre(bricks: list[Brick], world: World, rng: Rng, max_offset: int) -> list[Brick]:
    """Move the bricks close to the centre of the world; raise ``ValueError`` if they do not fit."""
    x, y = min(b.x for b in bricks), min(b.y for b in bricks)
    spare_x = world.size[0] - max(b.x + b.h for b in bricks) + x
    spare_y = world.size[1] - max(b.y + b.w for b in bricks) + y
    if min(spare_x, spare_y) < 0 or max(b.z for b in bricks) >= world.size[2]:
        raise ValueError(
            f"a structure of {len(bricks)} bricks does not fit into a world of size {world.size}; enlarge the world"
        )
    to_x, to_y = (
        min(max(spare // 2 + int(rng.integers(-max_offset, max_offset + 1)), 0), spare) for spare in (spare_x, spare_y)
    )
    return [b._replace(x=b.x - x + to_x, y=b.y - y + to_y) for b in bricks]


def _fits(brick: Brick, others: list[Brick], world: World) -> bool:
    site = Site(world)
    for other in others:
        site.add(other)
    return site.problem(brick) is None
