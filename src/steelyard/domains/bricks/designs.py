"""Plain designs: for every kind of brief, structures that serve it, with some choice in how they are put together.

Each is a list of bricks around the corner of the world. A ``ValueError`` says that the library has no parts for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steelyard.domains.bricks.briefs import (
    Bridge,
    Brief,
    Cantilever,
    Caption,
    Shape,
    Stairs,
    Table,
    Tower,
    Wall,
)
from steelyard.domains.bricks.briefs.captions import WORLD
from steelyard.domains.bricks.briefs.shapes import BLOCK
from steelyard.domains.bricks.briefs.spans import LONGEST_SINGLE, PIER
from steelyard.domains.bricks.parts import Library
from steelyard.domains.bricks.structure import Brick
from steelyard.domains.bricks.text import parse
from steelyard.domains.bricks.tiling import Piece, cut, lengths, rows, tile

Rng = np.random.Generator

TRIES = 50
USUAL = 0.8
"""How often an area is cut in the direction that takes fewer parts."""
NARROW = 0.3
"""How often rows are all 1 wide where they could be 2."""
LIGHT = 150
"""Grams times studs up to which an arm may be held in any of the ways there are; above, in the firmest."""
LONG = 8
"""The part that long bridges are made of."""


def design(brief: Brief, library: Library, rng: Rng) -> list[Brick]:
    """The bricks of a structure that serves the brief."""
    return DESIGNS[brief.kind](brief, library, rng)


def upon(pieces: Sequence[Piece], x: int, y: int, z: int) -> list[Brick]:
    """Pieces of an area whose corner is at (x, y), in layer z."""
    return [Brick(piece.h, piece.w, x + piece.x, y + piece.y, z) for piece in pieces]


def layer(length: int, width: int, x: int, z: int, library: Library, rng: Rng) -> list[Brick]:
    """A layer without holes, cut at random and mostly in the better direction."""
    ways = [tile(length, width, library, across=across, rng=rng) for across in (False, True)]
    fewer, more = sorted(ways, key=len)
    return upon(fewer if rng.random() < USUAL else more, x, 0, z)


def tower(brief: Tower, library: Library, rng: Rng) -> list[Brick]:
    return [b for z in range(brief.height) for b in layer(brief.length, brief.width, 0, z, library, rng)]


def wall(brief: Wall, library: Library, rng: Rng) -> list[Brick]:
    choices = lengths(library, brief.width)
    for _ in range(TRIES):
        courses = _bond(brief.length, brief.height, choices, rng)
        if courses is not None:
            return [
                Brick(piece, brief.width, end - piece, 0, z)
                for z, course in enumerate(courses)
                for piece, end in zip(course, np.cumsum(course).tolist(), strict=True)
            ]
    raise ValueError(f"no bond found for a wall {brief.length} long and {brief.width} thick")


def stairs(brief: Stairs, library: Library, rng: Rng) -> list[Brick]:
    """A flight whose steps rest on the back half of the one before, at times with a prop below one of them."""
    last, tread = brief.steps - 1, brief.tread
    bricks = upon(tile(tread, brief.width, library), last * tread, 0, last)
    for step in range(last):
        treads = rows(2 * tread, brief.width, library, narrow=rng.random() < NARROW)
        bricks += upon(treads, step * tread, 0, step)
    propped = int(rng.integers(1, 8))
    if propped < min(last, 4):
        bricks += [Brick(1, 1, (propped + 1) * tread, 0, z) for z in range(propped)]
    return bricks


def table(brief: Table, library: Library, rng: Rng) -> list[Brick]:
    """Rows of the top from end to end, on a support across each end or a stud further in."""
    inset = int(rng.integers(2)) if brief.length >= 6 else 0
    bricks = upon(rows(brief.length, brief.width, library, narrow=rng.random() < NARROW), 0, 0, brief.height - 1)
    for z in range(brief.height - 1):
        for x in (inset, brief.length - 1 - inset):
            bricks += upon(tile(1, brief.width, library, across=True, rng=rng), x, 0, z)
    return bricks


def bridge(brief: Bridge, library: Library, rng: Rng) -> list[Brick]:
    """One part from pier to pier, or for long gaps an arm from each side and a third part upon both."""
    deck, piers = (_short_deck if brief.gap <= LONGEST_SINGLE else _long_deck)(brief, library, rng)
    below = [
        brick
        for z in range(brief.clearance)
        for x, length in piers
        for brick in layer(length, brief.width, x, z, library, rng)
    ]
    return below + deck


def cantilever(brief: Cantilever, library: Library, rng: Rng) -> list[Brick]:
    """A base of whole rows, and an arm of whole rows that lies on it with at least two cells."""
    ways = [
        (arm - brief.reach, base, arm)
        for base in lengths(library, 2)
        for arm in lengths(library, 1)
        if base <= brief.base and 2 <= arm - brief.reach <= base
    ]
    if not ways:
        raise ValueError(f"no arm reaches {brief.reach} beyond a base of {brief.base}")
    _, base, arm = max(ways) if brief.load * brief.reach > LIGHT else ways[int(rng.integers(len(ways)))]
    bricks = [b for z in range(brief.height) for b in upon(rows(base, 2, library), 0, 0, z)]
    return bricks + upon(rows(arm, 2, library, narrow=rng.random() < NARROW), base + brief.reach - arm, 0, brief.height)


def shape(brief: Shape, library: Library, rng: Rng) -> list[Brick]:
    return [
        brick
        for z, first, blocks in brief.runs()
        for brick in layer(BLOCK * blocks, brief.depth, BLOCK * first, z, library, rng)
    ]


def captioned(brief: Caption, _library: Library, _rng: Rng) -> list[Brick]:
    """The structure that was captioned: the only answer that is known."""
    return list(parse(brief.bricks, WORLD, may_float=True).bricks)


DESIGNS: dict[str, Callable[[Any, Library, Rng], list[Brick]]] = {
    Tower.kind: tower,
    Wall.kind: wall,
    Stairs.kind: stairs,
    Table.kind: table,
    Bridge.kind: bridge,
    Cantilever.kind: cantilever,
    Shape.kind: shape,
    Caption.kind: captioned,
}

Deck = tuple[list[Brick], list[tuple[int, int]]]
"""The bricks of a deck, and (x, length) of each pier below it."""


def _short_deck(brief: Bridge, library: Library, rng: Rng) -> Deck:
    fitting = [length for length in lengths(library, 1) if 2 <= length - brief.gap <= PIER]
    if not fitting:
        raise ValueError(f"no part spans a gap of {brief.gap}")
    length = fitting[int(rng.integers(len(fitting)))]
    left = int(rng.integers(1, length - brief.gap))
    deck = upon(rows(length, brief.width, library, narrow=rng.random() < NARROW), 0, 0, brief.clearance)
    return deck, [(0, left), (left + brief.gap, length - brief.gap - left)]


def _long_deck(brief: Bridge, library: Library, _rng: Rng) -> Deck:
    """Arms that reach half a part over the gap, the second as far from the first as the gap asks."""
    second, far_pier = max(LONG, brief.gap), PIER + brief.gap
    length = LONG if second + LONG - far_pier <= PIER else LONG - 2
    deck = [
        *upon(rows(LONG, brief.width, library), 0, 0, brief.clearance),
        *upon(rows(length, brief.width, library), second, 0, brief.clearance),
        *upon(rows(LONG, brief.width, library), max(PIER, brief.gap // 2), 0, brief.clearance + 1),
    ]
    return deck, [(0, PIER), (far_pier, second + length - far_pier)]


def _bond(length: int, height: int, choices: list[int], rng: Rng) -> list[list[int]] | None:
    """Courses of which none has a joint above one of the course below; ``None`` if chance found no way up."""
    courses: list[list[int]] = []
    for _ in range(height):
        avoid = _joints(courses[-1]) if courses else set[int]()
        course = _course(length, choices, avoid, rng)
        if course is None:
            return None
        courses.append(course)
    return courses


def _course(length: int, choices: list[int], avoid: set[int], rng: Rng) -> list[int] | None:
    for _ in range(TRIES):
        course = cut(length, choices, rng)
        if not _joints(course) & avoid:
            return course
    return None


def _joints(course: list[int]) -> set[int]:
    return set(np.cumsum(course[:-1]).tolist())
