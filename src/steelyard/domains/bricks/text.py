"""The text format of StableText2Brick: one brick a line, ``hxw (x,y,z)``, best in raster order from the bottom up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steelyard.domains.bricks.connectivity import floating
from steelyard.domains.bricks.flaws import Flaw, InvalidStructureError, Reason
from steelyard.domains.bricks.structure import Brick, Site, Structure, World

LINE = re.compile(r"(\d+)x(\d+) \((\d+),(\d+),(\d+)\)", re.ASCII)
SHOWN = 40
DIGITS = 9
"""A number with more digits is beyond every world whatever they are, so the first ones will do."""


@dataclass(frozen=True)
class Reading:
    """What a text holds: the bricks that could be placed, in order, and what was wrong with the others."""

    structure: Structure
    flaws: tuple[Flaw, ...]
    lines: tuple[int, ...]
    """The line of each brick of the structure, counted from 1."""


def read(text: str, world: World) -> Reading:
    """Take every brick that can be placed when its turn comes, and pass over the others; blank lines count for nothing.

    Bricks that float in the end stay in the structure and are flaws too.
    """
    reading = _placed(text, world)
    return Reading(reading.structure, (*reading.flaws, *_afloat(reading)), reading.lines)


def parse(text: str, world: World, *, may_float: bool = False) -> Structure:
    """The structure a text describes, or :class:`InvalidStructureError` with its first flaw. A text without any brick
    is ill formatted.
    """
    reading = _placed(text, world)
    if not reading.flaws and not reading.structure.bricks:
        raise InvalidStructureError(Flaw(Reason.ILL_FORMATTED, 1, "the text has no brick"))
    for flaw in reading.flaws or (() if may_float else _afloat(reading)):
        raise InvalidStructureError(flaw)
    return reading.structure


def write(bricks: Structure | Sequence[Brick]) -> str:
    """The text of these bricks, a line each, in the order given."""
    return "".join(f"{brick}\n" for brick in (bricks.bricks if isinstance(bricks, Structure) else bricks))


def in_raster_order(structure: Structure) -> Structure:
    """The same bricks from the bottom up, each layer row by row."""
    ordered = sorted(structure.bricks, key=lambda brick: (brick.z, brick.y, brick.x))
    return Structure(tuple(ordered), structure.world)


def brick_of(line: str) -> Brick | None:
    """The brick of one line without white space around it; ``None`` if it has another form."""
    match = LINE.fullmatch(line)
    return Brick(*map(_number, match.groups())) if match else None


def _number(digits: str) -> int:
    return int(digits.lstrip("0")[:DIGITS] or "0")


def _placed(text: str, world: World) -> Reading:
    """All but the look at what floats."""
    site, flaws, lines = Site(world), list[Flaw](), list[int]()
    for number, line in enumerate(text.split("\n"), 1):
        if not (content := line.strip()):
            continue
        brick = brick_of(content)
        problem = (Reason.ILL_FORMATTED, _shown(content)) if brick is None else site.problem(brick)
        if problem is None and brick is not None:
            site.add(brick)
            lines.append(number)
        elif problem is not None:
            flaws.append(Flaw(problem[0], number, problem[1]))
    return Reading(site.structure(), tuple(flaws), tuple(lines))


def _afloat(reading: Reading) -> Iterator[Flaw]:
    for place in floating(reading.structure):
        what = f"{reading.structure.bricks[place]} has no way to the ground"
        yield Flaw(Reason.FLOATING, reading.lines[place], what)


def _shown(line: str) -> str:
    short = line if len(line) <= SHOWN else line[:SHOWN] + "…"
    return f"{short!r} is not of the form hxw (x,y,z)"
