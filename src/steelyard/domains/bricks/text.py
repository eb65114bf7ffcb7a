"""Text format of StableText2Brick: one brick per line, ``hxw (x,y,z)``, usually in raster order from the bottom up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from steelyard.domains.bricks.connectivity import floating
from steelyard.domains.bricks.flaws import Flaw, InvalidStructureError, Reason
from steelyard.domains.bricks.structure import Brick, Site, Structure, World
from steelyard.text import shortened

LINE = re.compile(r"(\d+)x(\d+) \((\d+),(\d+),(\d+)\)", re.ASCII)
FORM = "hxw (x,y,z)"
MAX_SHOWN = 40
MAX_DIGITS = 9
"""Maximum number of digits that are parsed; a longer number lies outside every world."""

Decode = Callable[[str, Sequence[Brick]], Brick | None]
"""Decodes a segment of text into a brick, given the bricks placed so far; ``None`` if the format is wrong."""


@dataclass(frozen=True)
class Reading:
    """The result of reading text: the bricks that could be placed, in order, and the flaws of the others."""

    structure: Structure
    flaws: tuple[Flaw, ...]
    lines: tuple[int, ...]
    """Line number of each brick in the structure, counted from 1."""


def read(text: str, world: World) -> Reading:
    """Read text leniently: place bricks in order and skip those that cannot be placed. Blank lines are ignored.

    Floating bricks stay in the structure and are also reported as flaws.
    """
    return with_floating(place_segments(_lines(text), _line_brick, world, FORM))


def parse(text: str, world: World, *, may_float: bool = False) -> Structure:
    """Read text strictly: raise :class:`InvalidStructureError` with the first flaw. Text without any bricks counts as
    malformed.
    """
    reading = place_segments(_lines(text), _line_brick, world, FORM)
    if not reading.flaws and not reading.structure.bricks:
        raise InvalidStructureError(Flaw(Reason.ILL_FORMATTED, 1, "the text has no brick"))
    for flaw in reading.flaws or (() if may_float else _afloat(reading)):
        raise InvalidStructureError(flaw)
    return reading.structure


def write(bricks: Structure | Sequence[Brick]) -> str:
    """Write bricks in the given order, one per line."""
    return "".join(f"{brick}\n" for brick in (bricks.bricks if isinstance(bricks, Structure) else bricks))


def in_raster_order(structure: Structure) -> Structure:
    """Sort bricks from the bottom up, and row by row within a layer."""
    ordered = sorted(structure.bricks, key=lambda brick: (brick.z, brick.y, brick.x))
    return Structure(tuple(ordered), structure.world)


def parse_brick(line: str) -> Brick | None:
    """Parse one stripped line; ``None`` if the format is wrong."""
    match = LINE.fullmatch(line)
    return Brick(*map(_number, match.groups())) if match else None


def _number(digits: str) -> int:
    return int(digits.lstrip("0")[:MAX_DIGITS] or "0")


def place_segments(segments: Iterable[tuple[int, str]], decode: Decode, world: World, form: str) -> Reading:
    """Decode and place numbered segments of text, one per brick, without checking for floating bricks."""
    site, flaws, lines = Site(world), list[Flaw](), list[int]()
    for number, content in segments:
        brick = decode(content, site.bricks)
        problem = (Reason.ILL_FORMATTED, _shown(content, form)) if brick is None else site.problem(brick)
        if problem is None and brick is not None:
            site.add(brick)
            lines.append(number)
        elif problem is not None:
            flaws.append(Flaw(problem[0], number, problem[1]))
    return Reading(site.structure(), tuple(flaws), tuple(lines))


def with_floating(reading: Reading) -> Reading:
    """Add a flaw for each floating brick."""
    return Reading(reading.structure, (*reading.flaws, *_afloat(reading)), reading.lines)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if content := line.strip():
            yield number, content


def _line_brick(line: str, _placed: Sequence[Brick]) -> Brick | None:
    return parse_brick(line)


def _afloat(reading: Reading) -> Iterator[Flaw]:
    for index in floating(reading.structure):
        detail = f"{reading.structure.bricks[index]} is not connected to the ground"
        yield Flaw(Reason.FLOATING, reading.lines[index], detail)


def _shown(segment: str, form: str) -> str:
    return f"{shortened(segment, MAX_SHOWN)!r} does not have the form {form}"
