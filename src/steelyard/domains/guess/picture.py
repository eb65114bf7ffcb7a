"""A picture of a game: the interval of possible numbers, narrowing question by question."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.domains.guess.game import Question
from steelyard.drawing import Ellipse, Label, Scene, framed, rectangle
from steelyard.drawing.scene import INK, SMALL_PRINT, Colour, Shape

WIDTH, ROW, BAR = 240.0, 20.0, 10.0
"""Width of the range, height of a line, height of its bar."""
FONT_SIZE = 11.0
RANGE: Colour = (226, 232, 240)
POSSIBLE: Colour = (120, 170, 220)
ASKED: Colour = (200, 60, 60)
FOUND: Colour = (40, 150, 80)


def draw_game(asked: Sequence[Question]) -> Scene:
    """Draw one line per question: the possible numbers as a bar, the number guessed as a dot, and the reply."""
    first = asked[0]
    unit = WIDTH / (first.high - first.low + 1)

    def x(number: int) -> float:
        return (number - first.low) * unit

    shapes: list[Shape] = [
        Label((0.0, 0.0), str(first.low), FONT_SIZE, SMALL_PRINT),
        Label((WIDTH, 0.0), str(first.high), FONT_SIZE, SMALL_PRINT, anchor="end"),
    ]
    for row, one in enumerate(asked):
        top = ROW * row + 6.0
        shapes += [
            rectangle(0.0, top, WIDTH, BAR, RANGE),
            rectangle(x(one.low), top, x(one.high + 1) - x(one.low), BAR, POSSIBLE),
            Ellipse((x(one.number) + unit / 2, top + BAR / 2), (4.0, 4.0), ASKED if one.reply else FOUND),
            Label((WIDTH + 8.0, top + BAR), f"{one.number} {one.reply or 'found'}", FONT_SIZE, INK),
        ]
    return framed(shapes, 8.0)
