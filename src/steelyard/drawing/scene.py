"""Flat shapes that make up a picture, in the order they are painted. SVG and PNG are rendered from the same shapes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

Point = tuple[float, float]
Colour = tuple[int, int, int]
Extent = tuple[float, float, float, float]
"""Left, top, right, bottom."""

INK: Colour = (40, 44, 52)
PAPER: Colour = (255, 255, 255)
SMALL_PRINT: Colour = (95, 100, 108)
LETTER = 0.55
"""Width of an average letter, relative to the font size."""


@dataclass(frozen=True, slots=True)
class Polygon:
    points: tuple[Point, ...]
    fill: Colour | None
    edge: Colour | None = None
    width: float = 0.0
    opacity: float = 1.0
    """Opacity of the fill."""

    def extent(self) -> Extent:
        return _around(self.points, self.width)

    def placed(self, factor: float, dx: float, dy: float) -> Polygon:
        return replace(self, points=_placed(self.points, factor, dx, dy), width=factor * self.width)


@dataclass(frozen=True, slots=True)
class Line:
    """An open path from point to point."""

    points: tuple[Point, ...]
    edge: Colour
    width: float = 1.0

    def extent(self) -> Extent:
        return _around(self.points, self.width)

    def placed(self, factor: float, dx: float, dy: float) -> Line:
        return replace(self, points=_placed(self.points, factor, dx, dy), width=factor * self.width)


@dataclass(frozen=True, slots=True)
class Ellipse:
    """An ellipse with horizontal and vertical axes."""

    centre: Point
    radii: Point
    fill: Colour
    edge: Colour | None = None
    width: float = 0.0

    def extent(self) -> Extent:
        (x, y), (a, b) = self.centre, self.radii
        return x - a - self.width / 2, y - b - self.width / 2, x + a + self.width / 2, y + b + self.width / 2

    def placed(self, factor: float, dx: float, dy: float) -> Ellipse:
        (x, y), (a, b) = self.centre, self.radii
        centre, radii = (factor * x + dx, factor * y + dy), (factor * a, factor * b)
        return replace(self, centre=centre, radii=radii, width=factor * self.width)


@dataclass(frozen=True, slots=True)
class Label:
    """Text whose baseline starts, is centred or ends at ``at``; ``upward`` rotates it 90 degrees to the left."""

    at: Point
    text: str
    size: float
    fill: Colour
    anchor: Literal["start", "middle", "end"] = "start"
    upward: bool = False

    def extent(self) -> Extent:
        """Estimate the extent; the width of letters depends on the font."""
        (x, y), wide = self.at, text_width(self.text, self.size)
        before = {"start": 0.0, "middle": wide / 2, "end": wide}[self.anchor]
        if self.upward:
            return x - self.size, y + before - wide, x + 0.3 * self.size, y + before
        return x - before, y - self.size, x - before + wide, y + 0.3 * self.size

    def placed(self, factor: float, dx: float, dy: float) -> Label:
        x, y = self.at
        return replace(self, at=(factor * x + dx, factor * y + dy), size=factor * self.size)


Shape = Polygon | Line | Ellipse | Label


@dataclass(frozen=True)
class Scene:
    """Shapes from back to front, and the visible part of the plane."""

    shapes: tuple[Shape, ...]
    frame: Extent

    @property
    def size(self) -> tuple[float, float]:
        left, top, right, bottom = self.frame
        return right - left, bottom - top

    def placed(self, factor: float, dx: float, dy: float) -> Scene:
        """Return the scene scaled by ``factor``, then moved by ``(dx, dy)``."""
        left, top, right, bottom = self.frame
        frame = (factor * left + dx, factor * top + dy, factor * right + dx, factor * bottom + dy)
        return Scene(tuple(shape.placed(factor, dx, dy) for shape in self.shapes), frame)


def framed(shapes: Iterable[Shape], margin: float) -> Scene:
    """Return a scene whose frame encloses all shapes, with a margin."""
    kept = tuple(shapes)
    left, top, right, bottom = zip(*(shape.extent() for shape in kept), strict=True)
    return Scene(kept, (min(left) - margin, min(top) - margin, max(right) + margin, max(bottom) + margin))


def text_width(text: str, size: float) -> float:
    return LETTER * size * len(text)


def rectangle(left: float, top: float, width: float, height: float, fill: Colour) -> Polygon:
    right, bottom = left + width, top + height
    return Polygon(((left, top), (right, top), (right, bottom), (left, bottom)), fill)


def _around(points: tuple[Point, ...], width: float) -> Extent:
    xs, ys = zip(*points, strict=True)
    return min(xs) - width / 2, min(ys) - width / 2, max(xs) + width / 2, max(ys) + width / 2


def _placed(points: tuple[Point, ...], factor: float, dx: float, dy: float) -> tuple[Point, ...]:
    return tuple((factor * x + dx, factor * y + dy) for x, y in points)
