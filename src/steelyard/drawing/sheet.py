"""Contact sheets (many captioned pictures on one page) and titles above a picture."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.drawing.scene import INK, LETTER, SMALL_PRINT, Label, Scene, Shape, rectangle

CELL, GAP, LINE = 220.0, 12.0, 15.0
LETTERS = 34
"""Maximum characters per caption line."""
GOOD, BAD = (46, 139, 87), (190, 60, 60)
MARGIN = 8.0
TITLE, SMALL = 15.0, 11.0
MIN_LETTERS = 36
"""Minimum characters per title line, even for a narrow picture."""


@dataclass(frozen=True)
class Card:
    """One picture on a sheet. ``good`` draws a green or red bar under it, or no bar if None."""

    scene: Scene
    caption: str = ""
    """One or more lines."""
    good: bool | None = None


def contact_sheet(cards: Sequence[Card], *, columns: int = 0) -> Scene:
    """Arrange cards row by row, each scaled to its cell; by default the page is about twice as wide as it is high."""
    if not cards:
        raise ValueError("a contact sheet needs at least one card")
    columns = columns or min(len(cards), math.ceil(math.sqrt(2 * len(cards))))
    text = LINE * max(len(_lines(card.caption)) for card in cards) + 8
    rows = math.ceil(len(cards) / columns)
    width, height = GAP + columns * (CELL + GAP), GAP + rows * (CELL + text + GAP)
    shapes: list[Shape] = []
    for number, card in enumerate(cards):
        row, column = divmod(number, columns)
        shapes += _cell(card, GAP + column * (CELL + GAP), GAP + row * (CELL + text + GAP))
    return Scene(tuple(shapes), (0.0, 0.0, width, height))


def with_title(scene: Scene, title: str, *, margin: float = MARGIN) -> Scene:
    """Return the scene with a title above it; lines after the first are in small print."""
    left, top, right, bottom = scene.frame
    labels: list[Label] = []
    y = 0.0
    for number, paragraph in enumerate(title.split("\n")):
        size, colour = (SMALL, SMALL_PRINT) if number else (TITLE, INK)
        letters = max(MIN_LETTERS, int((right - left - 2 * margin) / (LETTER * size)))
        for line in textwrap.wrap(paragraph, letters) or [""]:
            y += 1.25 * size
            labels.append(Label((left + margin, y), line, size, colour))
    raised = [label.placed(1.0, 0.0, top + 4 - y) for label in labels]
    wide = max(label.extent()[2] for label in raised) + margin
    return Scene((*raised, *scene.shapes), (left, top - y - 1.25, max(right, wide), bottom))


def _cell(card: Card, left: float, top: float) -> list[Shape]:
    seen = card.scene
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
    """Split a caption into lines; lines wider than a cell wrap between words."""
    return [part for line in caption.split("\n") for part in textwrap.wrap(line, LETTERS) or [""]]
