"""Line charts: panels with axes, ticks and titles, and one shared legend.

Curves differ in colour (Okabe and Ito's palette, which suits colour-blind readers) and in the shape of their marks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from steelyard.drawing.scene import INK, Colour, Ellipse, Label, Line, Point, Polygon, Scene, Shape, text_width
from steelyard.drawing.ticks import Axis, Scale, drawable, scale
from steelyard.text import shortened

WIDTH, HEIGHT = 250.0, 150.0
"""Size of the plot area, without titles and tick labels."""
LEFT, RIGHT, ABOVE, BELOW = 62.0, 18.0, 34.0, 48.0
HEAD, TITLE, TEXT, SMALL = 17.0, 14.0, 12.0, 11.0
MARGIN, LEGEND_LINE = 10.0, 20.0
GREY: Colour = (95, 100, 108)
GRID: Colour = (228, 230, 233)
COLOURS: tuple[Colour, ...] = (
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (230, 159, 0),
    (86, 180, 233),
    (40, 40, 40),
)
MARKS: tuple[tuple[int, float], ...] = ((0, 0.0), (4, math.pi / 4), (3, 0.0), (4, 0.0), (5, 0.0))
"""Corners and rotation of each mark: circle, square, triangle, diamond, pentagon. Seven colours give 35 styles."""
MARK = 3.6
MARKED, SPARSE = 20, 12
"""Curves with up to ``MARKED`` points have a mark at every point; longer ones have at most ``SPARSE`` marks."""


_Place = Callable[[float, float], Point]
"""Maps values to a point in the picture."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A named line with a gap wherever ``y`` is not finite."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    spread: tuple[float, ...] = ()
    """Half the height of the band at each point; empty for no band."""


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    x: Axis
    y: Axis
    curves: tuple[Curve, ...]
    note: str = ""
    """Short text to the right of the title."""


def chart(panels: Sequence[Panel], *, title: str = "", note: str = "", columns: int = 4) -> Scene:
    """Arrange panels row by row under a title.

    Curves with the same name share a style; a legend appears if there is more than one name.
    """
    if not panels:
        raise ValueError("a chart needs at least one panel")
    columns = min(columns, len(panels))
    width = 2 * MARGIN + columns * (LEFT + WIDTH + RIGHT)
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    head, top = _head(title, note, width)
    legend, top = _legend(names if len(names) > 1 else [], top, width)
    shapes: list[Shape] = [*head, *legend]
    high = ABOVE + HEIGHT + BELOW
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        left = MARGIN + column * (LEFT + WIDTH + RIGHT) + LEFT
        shapes += _panel(panel, left, top + row * high + ABOVE, {name: place for place, name in enumerate(names)})
    return Scene(tuple(shapes), (0.0, 0.0, width, top + math.ceil(len(panels) / columns) * high + MARGIN))


def _head(title: str, note: str, width: float) -> tuple[list[Shape], float]:
    """Return the title and note, side by side if they fit, and the y coordinate below them."""
    if not title:
        return [], MARGIN
    room = width - 2 * (MARGIN + 6)
    title, y = _cut(title, HEAD, room), MARGIN + 16
    shapes: list[Shape] = [Label((MARGIN + 6, y), title, HEAD, INK)]
    after = text_width(title, 1.1 * HEAD) + 12
    same_line = after + text_width(note, TEXT) <= room
    if note:
        y += 0 if same_line else 18
        shapes.append(Label((MARGIN + 6 + (after if same_line else 0), y), _cut(note, TEXT, room), TEXT, GREY))
    return shapes, y + 12


def _cut(text: str, size: float, room: float) -> str:
    """Shorten text to fit the available space."""
    return shortened(text, int(room / text_width("x", size)))


def _legend(names: Sequence[str], top: float, width: float) -> tuple[list[Shape], float]:
    """Return the legend entries, with as many per line as fit, and the y coordinate below them."""
    shapes: list[Shape] = []
    x, y = MARGIN + 6, top + 14
    for place, full_name in enumerate(names):
        name = _cut(full_name, 1.1 * TEXT, width - 2 * MARGIN - 54)
        wide = 34 + text_width(name, TEXT * 1.1) + 14
        if x > MARGIN + 6 and x + wide > width - MARGIN:
            x, y = MARGIN + 6, y + LEGEND_LINE
        shapes.append(Line(((x, y - 4), (x + 28, y - 4)), colour_of(place), 2.0))
        shapes.append(_mark((x + 14, y - 4), place))
        shapes.append(Label((x + 34, y), name, TEXT, INK))
        x += wide
    return shapes, y + 8 if names else top


def _panel(panel: Panel, left: float, top: float, places: Mapping[str, int]) -> Iterator[Shape]:
    points = [(x, y, around) for curve in panel.curves for x, y, around in _points(curve)]
    across = scale(panel.x, [x for x, _, _ in points])
    up = scale(panel.y, [y + sign * around for _, y, around in points for sign in (-1, 1)])
    yield from _axes(panel, left, top, across, up)
    bottom = top + HEIGHT

    def place(x: float, y: float) -> Point:
        return left + WIDTH * across.share(x), bottom - HEIGHT * up.share(y)

    if not points:
        yield Label((left + WIDTH / 2, top + HEIGHT / 2), "no finite values", TEXT, GREY, "middle")
    for curve in panel.curves:
        yield from (_band(run, place, places[curve.name]) for run in _runs(curve) if curve.spread and len(run) > 1)
    for curve in panel.curves:
        yield from _line(curve, place, places[curve.name], len(places))


def _axes(panel: Panel, left: float, top: float, across: Scale, up: Scale) -> Iterator[Shape]:
    bottom, right = top + HEIGHT, left + WIDTH
    yield Label((left, top - 12), panel.title, TITLE, INK)
    if panel.note:
        yield Label((right, top - 12), panel.note, SMALL, GREY, "end")
    for tick, text in zip(up.ticks, up.labels, strict=True):
        y = bottom - HEIGHT * up.share(tick)
        yield Line(((left, y), (right, y)), GRID, 1.0)
        yield Label((left - 7, y + 4), text, SMALL, GREY, "end")
    for tick, text in zip(across.ticks, across.labels, strict=True):
        x = left + WIDTH * across.share(tick)
        yield Line(((x, bottom), (x, bottom + 4)), GREY, 1.0)
        yield Label((x, bottom + 16), text, SMALL, GREY, "middle")
    yield Line(((left, top), (left, bottom), (right, bottom)), GREY, 1.0)
    yield Label((left + WIDTH / 2, bottom + 33), panel.x.title, TEXT, INK, "middle")
    yield Label((left - LEFT + 14, top + HEIGHT / 2), panel.y.title, TEXT, INK, "middle", upward=True)


def _points(curve: Curve) -> Iterator[tuple[float, float, float]]:
    """Yield (x, y, half the band) for all points that can be drawn."""
    return (point for run in _runs(curve) for point in run)


def _runs(curve: Curve) -> list[list[tuple[float, float, float]]]:
    """Split the curve into segments without gaps."""
    spread = curve.spread or (0.0,) * len(curve.x)
    runs: list[list[tuple[float, float, float]]] = [[]]
    for x, y, around in zip(curve.x, curve.y, spread, strict=True):
        if drawable(x) and drawable(y):
            runs[-1].append((x, y, around if drawable(around) else 0.0))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _band(run: Sequence[tuple[float, float, float]], place: _Place, style: int) -> Shape:
    over = [place(x, y + around) for x, y, around in run]
    under = [place(x, y - around) for x, y, around in reversed(run)]
    return Polygon((*over, *under), colour_of(style), opacity=0.18)


def _line(curve: Curve, place: _Place, style: int, styles: int) -> Iterator[Shape]:
    """Yield the line and its marks; the marks of different curves are offset from one another."""
    runs = _runs(curve)
    for run in runs:
        if len(run) > 1:
            yield Line(tuple(place(x, y) for x, y, _ in run), colour_of(style), 1.8)
    points = [place(x, y) for run in runs for x, y, _ in run]
    every = 1 if len(points) <= MARKED else math.ceil(len(points) / SPARSE)
    lone = [place(*run[0][:2]) for run in runs if len(run) == 1]
    if styles > 1 or every == 1:
        lone += points[style * every // styles :: every]
    yield from (_mark(point, style) for point in dict.fromkeys(lone))


def _mark(centre: Point, style: int) -> Shape:
    (x, y), (corners, turn) = centre, MARKS[style % len(MARKS)]
    if not corners:
        return Ellipse(centre, (MARK, MARK), colour_of(style))
    angles = [turn - math.pi / 2 + 2 * math.pi * corner / corners for corner in range(corners)]
    points = tuple((x + 1.25 * MARK * math.cos(angle), y + 1.25 * MARK * math.sin(angle)) for angle in angles)
    return Polygon(points, colour_of(style))


def colour_of(style: int) -> Colour:
    return COLOURS[style % len(COLOURS)]
