"""The text format of StableText2Brick: one brick a line, ``hxw (x,y,z)``, best in raster order from the bottom up."""

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
SHOWN = 40
DIGITS = 9
"""A number with more digits is beyond every world whatever they are, so the first ones will do."""

Decode = Callable[[str, Sequence[Brick]], Brick | None]
"""The brick that a piece of text says, given those that stand; ``None`` if the piece has another form."""


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
    return with_floating(placed(_lines(text), _line_brick, world, FORM))


def parse(text: str, world: World, *, may_float: bool = False) -> Structure:
    """The structure a text describes, or :class:`InvalidStructureError` with its first flaw. A text without any brick
    is ill formatted.
    """
    reading = placed(_lines(text), _line_brick, world, FORM)
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


def placed(pieces: Iterable[tuple[int, str]], decode: Decode, world: World, form: str) -> Reading:
    """The reading of numbered pieces of text, each of which should say a brick in some form; all but the look at what
    floats.
    """
    site, flaws, lines = Site(world), list[Flaw](), list[int]()
    for number, content in pieces:
        brick = decode(content, site.bricks)
        problem = (Reason.ILL_FORMATTED, _shown(content, form)) if brick is None else site.problem(brick)
        if problem is None and brick is not None:
            site.add(brick)
            lines.append(number)
        elif problem is not None:
            flaws.append(Flaw(problem[0], number, problem[1]))
    return Reading(site.structure(), tuple(flaws), tuple(lines))


def with_floating(reading: Reading) -> Reading:
    """The reading with a flaw more for each brick that floats."""
    return Reading(reading.structure, (*reading.flaws, *_afloat(reading)), reading.lines)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if content := line.strip():
            yield number, content


def _line_brick(line: str, _standing: Sequence[Brick]) -> Brick | None:
    return brick_of(line)


def _afloat(reading: Reading) -> Iterator[Flaw]:
    for place in floating(reading.structure):
        what = f"{reading.structure.bricks[place]} has no way to the ground"
        yield Flaw(Reason.FLOATING, reading.lines[place], what)


def _shown(piece: str, form: str) -> str:
    return f"{shortened(piece, SHOWN)!r} is not of the form {form}"
