"""A contact sheet: many structures on one page, each with a caption."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.domains.base import ColourBy
from steelyard.domains.bricks.render.annotations import with_legend, with_title
from steelyard.domains.bricks.render.isometric import picture
from steelyard.domains.bricks.stability import Stability
from steelyard.domains.bricks.structure import Structure
from steelyard.drawing.scene import INK, Label, Scene, Shape, rectangle

CELL, GAP, LINE = 220.0, 12.0, 15.0
LETTERS = 34
"""Of a caption, beside one another under a cell."""
GOOD, BAD = (46, 139, 87), (190, 60, 60)


@dataclass(frozen=True)
class Card:
    """One structure of a sheet. ``good`` paints a green or a red bar under it; ``None`` none."""

    structure: Structure
    caption: str = ""
    """One or more lines."""
    stability: Stability | None = None
    good: bool | None = None


def contact_sheet(cards: Sequence[Card], *, columns: int = 0, by: ColourBy = "part", title: str = "") -> Scene:
    """All cards row by row, each scaled to its cell; without ``columns`` the page is about twice as wide as high."""
    if not cards:
        raise ValueError("a contact sheet needs at least one card")
    columns = columns or min(len(cards), math.ceil(math.sqrt(2 * len(cards))))
    text = LINE * max(len(_lines(card.caption)) for card in cards) + 8
    rows = math.ceil(len(cards) / columns)
    width, height = GAP + columns * (CELL + GAP), GAP + rows * (CELL + text + GAP)
    shapes: list[Shape] = []
    for number, card in enumerate(cards):
        row, column = divmod(number, columns)
        shapes += _cell(card, GAP + column * (CELL + GAP), GAP + row * (CELL + text + GAP), by)
    sheet = Scene(tuple(shapes), (0.0, 0.0, width, height))
    judged = [card.stability for card in cards if card.stability is not None]
    sheet = with_legend(sheet, judged[0], margin=GAP) if by == "stress" and judged else sheet
    return with_title(sheet, title, margin=GAP) if title else sheet


def _cell(card: Card, left: float, top: float, by: ColourBy) -> list[Shape]:
    seen = picture(card.structure, by=by, stability=card.stability)
    width, height = seen.size
    factor = min(CELL / width, CELL / height, 1.6)
    across, down = left + (CELL - factor * width) / 2, top + CELL - factor * height
    placed = seen.placed(factor, across - factor * seen.frame[0], down - factor * seen.frame[1])
    shapes: list[Shape] = list(placed.shapes)
    if card.good is not None:
        shapes.append(rectangle(left, top + CELL + 1, CELL, 3, GOOD if card.good else BAD))
    for number, line in enumerate(_lines(card.caption), 1):
        shapes.append(Label((left, top + CELL + 3 + LINE * number), line, 12.0, INK))
    return shapes


def _lines(caption: str) -> list[str]:
    """The lines of a caption, those that are wider than a cell broken between words."""
    return [part for line in caption.split("\n") for part in textwrap.wrap(line, LETTERS) or [""]]
