"""What a picture is made of: flat shapes in the order they are painted. SVG and PNG are written from the same list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

Point = tuple[float, float]
Colour = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Polygon:
    points: tuple[Point, ...]
    fill: Colour | None
    edge: Colour | None = None
    width: float = 0.0

    def extent(self) -> tuple[float, float, float, float]:
        xs, ys = zip(*self.points, strict=True)
        return min(xs) - self.width / 2, min(ys) - self.width / 2, max(xs) + self.width / 2, max(ys) + self.width / 2

    def placed(self, factor: float, dx: float, dy: float) -> Polygon:
        points = tuple((factor * x + dx, factor * y + dy) for x, y in self.points)
        return replace(self, points=points, width=factor * self.width)


@dataclass(frozen=True, slots=True)
class Ellipse:
    """Its axes are upright and level."""

    centre: Point
    radii: Point
    fill: Colour
    edge: Colour | None = None
    width: float = 0.0

    def extent(self) -> tuple[float, float, float, float]:
        (x, y), (a, b) = self.centre, self.radii
        return x - a - self.width / 2, y - b - self.width / 2, x + a + self.width / 2, y + b + self.width / 2

    def placed(self, factor: float, dx: float, dy: float) -> Ellipse:
        (x, y), (a, b) = self.centre, self.radii
        centre, radii = (factor * x + dx, factor * y + dy), (factor * a, factor * b)
        return replace(self, centre=centre, radii=radii, width=factor * self.width)


@dataclass(frozen=True, slots=True)
class Label:
    """Text that starts at ``at`` on its base line."""

    at: Point
    text: str
    size: float
    fill: Colour

    def extent(self) -> tuple[float, float, float, float]:
        x, y = self.at
        return x, y - self.size, x + 0.55 * self.size * len(self.text), y + 0.3 * self.size

    def placed(self, factor: float, dx: float, dy: float) -> Label:
        x, y = self.at
        return replace(self, at=(factor * x + dx, factor * y + dy), size=factor * self.size)


Shape = Polygon | Ellipse | Label


@dataclass(frozen=True)
class Scene:
    """Shapes from back to front, and the part of the plane that is shown."""

    shapes: tuple[Shape, ...]
    frame: tuple[float, float, float, float]
    """Left, top, right, bottom."""

    @property
    def size(self) -> tuple[float, float]:
        left, top, right, bottom = self.frame
        return right - left, bottom - top

    def placed(self, factor: float, dx: float, dy: float) -> Scene:
        """The scene made larger by ``factor``, then moved."""
        left, top, right, bottom = self.frame
        frame = (factor * left + dx, factor * top + dy, factor * right + dx, factor * bottom + dy)
        return Scene(tuple(shape.placed(factor, dx, dy) for shape in self.shapes), frame)


def framed(shapes: Iterable[Shape], margin: float) -> Scene:
    """A scene with all its shapes in sight."""
    kept = tuple(shapes)
    left, top, right, bottom = zip(*(shape.extent() for shape in kept), strict=True)
    return Scene(kept, (min(left) - margin, min(top) - margin, max(right) + margin, max(bottom) + margin))
