"""Simple designs: structures that fulfil each kind of brief, with random variation in how they are assembled.

A design is a list of bricks near the corner of the world. A ``ValueError`` means that the library lacks the required
parts.
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
from steelyard.domains.bricks.tiling import Tile, lengths, rows, split_length, tile

Rng = np.random.Generator

MAX_ATTEMPTS = 50
EFFICIENT = 0.8
"""Probability of tiling an area in the direction that takes fewer parts."""
NARROW = 0.3
"""Probability of using rows of width 1 where width 2 is possible."""
LIGHT = 150
"""Largest torque (grams times studs) at which an arm's support is random; above it, the firmest support is used."""
LONG = 8
"""Length of the parts used for long bridges."""


def design(brief: Brief, library: Library, rng: Rng) -> list[Brick]:
    """Return the bricks of a structure that fulfils the brief."""
    return DESIGNS[brief.kind](brief, library, rng)


def bricks_at(tiles: Sequence[Tile], x: int, y: int, z: int) -> list[Brick]:
    """Place the tiles of a rectangle with its corner at (x, y) in layer z."""
    return [Brick(h, w, x + left, y + front, z) for h, w, left, front in tiles]


def layer(length: int, width: int, x: int, z: int, library: Library, rng: Rng) -> list[Brick]:
    """Build a solid layer, tiled at random and mostly in the more efficient direction."""
    options = [tile(length, width, library, across=across, rng=rng) for across in (False, True)]
    fewer, more = sorted(options, key=len)
    return bricks_at(fewer if rng.random() < EFFICIENT else more, x, 0, z)


def tower(brief: Tower, library: Library, rng: Rng) -> list[Brick]:
    return [b for z in range(brief.height) for b in layer(brief.length, brief.width, 0, z, library, rng)]


def wall(brief: Wall, library: Library, rng: Rng) -> list[Brick]:
    choices = lengths(library, brief.width)
    for _ in range(MAX_ATTEMPTS):
        courses = _bond(brief.length, brief.height, choices, rng)
        if courses is not None:
            return [
                Brick(length, brief.width, end - length, 0, z)
                for z, course in enumerate(courses)
                for length, end in zip(course, np.cumsum(course).tolist(), strict=True)
            ]
    raise ValueError(f"no masonry bond found for a wall of length {brief.length} and thickness {brief.width}")


def stairs(brief: Stairs, library: Library, rng: Rng) -> list[Brick]:
    """Build stairs in which each step rests on the back half of the previous one, sometimes with a prop below."""
    last, tread = brief.steps - 1, brief.tread
    bricks = bricks_at(tile(tread, brief.width, library), last * tread, 0, last)
    for step in range(last):
        treads = rows(2 * tread, brief.width, library, narrow=rng.random() < NARROW)
        bricks += bricks_at(treads, step * tread, 0, step)
    propped = int(rng.integers(1, 8))
    if propped < min(last, 4):
        bricks += [Brick(1, 1, (propped + 1) * tread, 0, z) for z in range(propped)]
    return bricks


def table(brief: Table, library: Library, rng: Rng) -> list[Brick]:
    """Build a top of full-length rows on two supports, at the ends or one stud further in."""
    inset = int(rng.integers(2)) if brief.length >= 6 else 0
    bricks = bricks_at(rows(brief.length, brief.width, library, narrow=rng.random() < NARROW), 0, 0, brief.height - 1)
    for z in range(brief.height - 1):
        for x in (inset, brief.length - 1 - inset):
            bricks += bricks_at(tile(1, brief.width, library, across=True, rng=rng), x, 0, z)
    return bricks


def bridge(brief: Bridge, library: Library, rng: Rng) -> list[Brick]:
    """Span the gap with one part or, for long gaps, with an arm from each side and a third part on top of both."""
    deck, piers = (_short_deck if brief.gap <= LONGEST_SINGLE else _long_deck)(brief, library, rng)
    below = [
        brick
        for z in range(brief.clearance)
        for x, length in piers
        for brick in layer(length, brief.width, x, z, library, rng)
    ]
    return below + deck


def cantilever(brief: Cantilever, library: Library, rng: Rng) -> list[Brick]:
    """Build a base and an arm of full-length rows; the arm overlaps the base by at least two cells."""
    options = [
        (arm - brief.reach, base, arm)
        for base in lengths(library, 2)
        for arm in lengths(library, 1)
        if base <= brief.base and 2 <= arm - brief.reach <= base
    ]
    if not options:
        raise ValueError(f"no part reaches {brief.reach} beyond a base of {brief.base}")
    _, base, arm = max(options) if brief.load * brief.reach > LIGHT else options[int(rng.integers(len(options)))]
    bricks = [b for z in range(brief.height) for b in bricks_at(rows(base, 2, library), 0, 0, z)]
    top = rows(arm, 2, library, narrow=rng.random() < NARROW)
    return bricks + bricks_at(top, base + brief.reach - arm, 0, brief.height)


def shape(brief: Shape, library: Library, rng: Rng) -> list[Brick]:
    return [
        brick
        for z, first, blocks in brief.runs()
        for brick in layer(BLOCK * blocks, brief.depth, BLOCK * first, z, library, rng)
    ]


def captioned(brief: Caption, _library: Library, _rng: Rng) -> list[Brick]:
    """Return the captioned structure, the only known answer."""
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
"""The bricks of a deck, and the (x, length) of each pier below it."""


def _short_deck(brief: Bridge, library: Library, rng: Rng) -> Deck:
    fitting = [length for length in lengths(library, 1) if 2 <= length - brief.gap <= PIER]
    if not fitting:
        raise ValueError(f"no part spans a gap of {brief.gap}")
    length = fitting[int(rng.integers(len(fitting)))]
    left = int(rng.integers(1, length - brief.gap))
    deck = bricks_at(rows(length, brief.width, library, narrow=rng.random() < NARROW), 0, 0, brief.clearance)
    return deck, [(0, left), (left + brief.gap, length - brief.gap - left)]


def _long_deck(brief: Bridge, library: Library, _rng: Rng) -> Deck:
    """Build two arms that each reach half a part over the gap, at the distance that the gap requires."""
    second, far_pier = max(LONG, brief.gap), PIER + brief.gap
    length = LONG if second + LONG - far_pier <= PIER else LONG - 2
    deck = [
        *bricks_at(rows(LONG, brief.width, library), 0, 0, brief.clearance),
        *bricks_at(rows(length, brief.width, library), second, 0, brief.clearance),
        *bricks_at(rows(LONG, brief.width, library), max(PIER, brief.gap // 2), 0, brief.clearance + 1),
    ]
    return deck, [(0, PIER), (far_pier, second + length - far_pier)]


def _bond(length: int, height: int, choices: list[int], rng: Rng) -> list[list[int]] | None:
    """Build courses so that joints never align in adjacent courses; return ``None`` if the random search fails."""
    courses: list[list[int]] = []
    for _ in range(height):
        avoid = _joints(courses[-1]) if courses else set[int]()
        course = _course(length, choices, avoid, rng)
        if course is None:
            return None
        courses.append(course)
    return courses


def _course(length: int, choices: list[int], avoid: set[int], rng: Rng) -> list[int] | None:
    for _ in range(MAX_ATTEMPTS):
        course = split_length(length, choices, rng)
        if not _joints(course) & avoid:
            return course
    return None


def _joints(course: list[int]) -> set[int]:
    return set(np.cumsum(course[:-1]).tolist())
