"""The legend for pictures coloured by stress."""

from __future__ import annotations

import math
from collections.abc import Iterator

from steelyard.domains.bricks.render import colours
from steelyard.domains.bricks.stability import Stability
from steelyard.domains.bricks.stability.physics import PUBLISHED
from steelyard.drawing.scene import INK, SMALL_PRINT, Label, Line, Scene, Shape, rectangle
from steelyard.drawing.sheet import MARGIN, SMALL

BAR_WIDTH, BAR_HEIGHT = 150.0, 10.0
"""Width and height of the colour bar."""
SHADES = 50
TICKS = ("0", "0.25", "0.5", "0.75", "1")
LEGEND_WIDTH, LEGEND_HEIGHT = 290.0, 66.0
MEANING = f"stress = pull / capacity of a contact ({PUBLISHED.capacity:g} N)"


def with_legend(scene: Scene, stability: Stability, *, margin: float = MARGIN) -> Scene:
    """Add the stress legend below the scene."""
    left, top, right, bottom = scene.frame
    shapes = legend(left + margin, bottom, solved=not math.isnan(stability.pull))
    frame = (left, top, max(right, left + LEGEND_WIDTH + 2 * margin), bottom + LEGEND_HEIGHT)
    return Scene((*shapes, *scene.shapes), frame)


def legend(left: float, top: float, *, solved: bool = True) -> list[Shape]:
    """Draw the legend in a box of ``LEGEND_WIDTH`` by ``LEGEND_HEIGHT``, with two colours if no solver ran."""
    return list(_scale(left, top) if solved else _two_colours(left, top))


def _scale(left: float, top: float) -> Iterator[Shape]:
    bar, failing = top + 20, left + BAR_WIDTH + 16
    yield _small(left, top + 12, MEANING)
    for shade in range(SHADES):
        colour = colours.of_score((shade + 0.5) / SHADES)
        yield rectangle(left + BAR_WIDTH * shade / SHADES, bar, BAR_WIDTH / SHADES + 0.3, BAR_HEIGHT, colour)
    for number, text in enumerate(TICKS):
        x = left + BAR_WIDTH * number / (len(TICKS) - 1)
        yield Line(((x, bar + BAR_HEIGHT), (x, bar + BAR_HEIGHT + 3)), SMALL_PRINT, 1.0)
        anchor = "start" if not number else "end" if number == len(TICKS) - 1 else "middle"
        yield Label((x, bar + BAR_HEIGHT + 14), text, SMALL, INK, anchor)
    yield Label((left, bar + BAR_HEIGHT + 27), "0", SMALL, SMALL_PRINT)
    yield Label((left + BAR_WIDTH, bar + BAR_HEIGHT + 27), "separates", SMALL, SMALL_PRINT, "end")
    yield rectangle(failing, bar, 18, BAR_HEIGHT, colours.FAILING)
    yield _small(failing + 24, bar + 9, "fails or floats")


def _two_colours(left: float, top: float) -> Iterator[Shape]:
    for number, (score, text) in enumerate(((0.0, "reaches the ground"), (1.0, "floats"))):
        y = top + 8 + 18 * number
        yield rectangle(left, y, 18, BAR_HEIGHT, colours.of_score(score))
        yield _small(left + 24, y + 9, text)
    yield Label((left, top + 54), "forces were not computed", SMALL, SMALL_PRINT)


def _small(x: float, y: float, text: str) -> Label:
    return Label((x, y), text, SMALL, INK)
