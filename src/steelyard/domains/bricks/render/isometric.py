"""Isometric drawing of a structure, seen from positive x, y and z."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from steelyard.domains.artifacts import ColourBy
from steelyard.domains.bricks.render import colours
from steelyard.domains.bricks.render.annotations import with_legend
from steelyard.domains.bricks.render.order import Item, painting_order
from steelyard.domains.bricks.stability import Stability
from steelyard.domains.bricks.structure import Brick, Structure
from steelyard.drawing.scene import Colour, Ellipse, Point, Polygon, Scene, Shape, framed
from steelyard.drawing.sheet import with_title

Ground = tuple[int, int, int, int]
"""Extent of the base plate: x start, y start, x end, y end."""

UNIT = 22.0
"""Length of a stud along x or y, in picture units."""
COS, SIN = math.cos(math.pi / 6), 0.5
LAYER = 1.2
STUD_RADIUS, STUD_HEIGHT = 0.3, 0.2
MARGIN = 8.0
ARC = [math.pi * step / 8 for step in range(9)]


def draw(
    structure: Structure,
    *,
    by: ColourBy = "part",
    stability: Stability | None = None,
    ground: Ground | None = None,
    title: str = "",
) -> Scene:
    """Draw a structure with an optional title. ``by="stress"`` requires ``stability`` and adds a legend. ``ground``
    sets the extent of the base plate, which otherwise fits the structure.
    """
    scene = picture(structure, by=by, stability=stability, ground=ground)
    if by == "stress" and stability is not None:
        scene = with_legend(scene, stability)
    return with_title(scene, title) if title else scene


def picture(
    structure: Structure, *, by: ColourBy = "part", stability: Stability | None = None, ground: Ground | None = None
) -> Scene:
    """Draw the structure on its base plate, without a title or legend."""
    if by == "stress" and stability is None:
        raise ValueError("colouring by stress needs a stability analysis; pass stability=assess(structure)")
    scores = None if stability is None or by == "part" else stability.score_B.tolist()
    shapes = list(_plate(ground or ground_of(structure.bricks)))
    for item in painting_order(structure):
        colour, failing = _colour(structure, item.brick, scores)
        shapes += _stud(item, colour, failing) if item.stud else _body(item, colour, failing)
    if scores is not None:
        shapes += [_outline(brick) for brick, score in zip(structure.bricks, scores, strict=True) if score >= 1.0]
    return framed(shapes, MARGIN)


def ground_of(bricks: Sequence[Brick]) -> Ground:
    """Return the base plate for the bricks, one stud wider on every side."""
    if not bricks:
        return 0, 0, 4, 4
    return (
        min(brick.x for brick in bricks) - 1,
        min(brick.y for brick in bricks) - 1,
        max(brick.x + brick.h for brick in bricks) + 1,
        max(brick.y + brick.w for brick in bricks) + 1,
    )


def project(x: float, y: float, z: float) -> Point:
    """Project studs along x and y and layers along z to the picture plane, whose y axis points down.

    Positive x points to the front left and positive y to the front right, so the axes are right-handed as in all
    exports.
    """
    return UNIT * (y - x) * COS, UNIT * ((x + y) * SIN - z * LAYER)


def _colour(structure: Structure, brick: int, scores: Sequence[float] | None) -> tuple[Colour, bool]:
    if scores is None:
        return colours.of_part(structure.world.library.by_dimensions[structure.bricks[brick][:2]]), False
    return colours.of_score(scores[brick]), scores[brick] >= 1.0


def _body(item: Item, colour: Colour, failing: bool) -> Iterator[Shape]:
    """Draw the top, the side that faces positive x (left) and the side that faces positive y (right)."""
    x, y, x_end, y_end, low, high = item.x, item.y, item.x_end, item.y_end, item.z, item.z + 1
    edge, width = _edge(colour, failing)
    top = ((x, y, high), (x_end, y, high), (x_end, y_end, high), (x, y_end, high))
    left = ((x_end, y_end, high), (x_end, y, high), (x_end, y, low), (x_end, y_end, low))
    right = ((x, y_end, high), (x_end, y_end, high), (x_end, y_end, low), (x, y_end, low))
    faces = (
        (left, colours.darker(colour, 0.12)),
        (right, colours.darker(colour, 0.3)),
        (top, colours.lighter(colour, 0.12)),
    )
    for corners, fill in faces:
        yield Polygon(tuple(project(*corner) for corner in corners), fill, edge, width)


def _outline(brick: Brick) -> Polygon:
    """Draw the outline of a failing brick over everything that hides it."""
    h, w, x, y, z = brick
    corners = (
        (x, y, z + 1),
        (x + h, y, z + 1),
        (x + h, y, z),
        (x + h, y + w, z),
        (x, y + w, z),
        (x, y + w, z + 1),
    )
    return Polygon(tuple(project(*corner) for corner in corners), None, colours.FAILING, 2.2)


def _stud(item: Item, colour: Colour, failing: bool) -> Iterator[Shape]:
    """Draw a stud as a cylinder with a lid. A horizontal circle becomes an ellipse, √2·cos 30° wide and √2·sin 30°
    high.
    """
    a, b = UNIT * STUD_RADIUS * math.sqrt(2) * COS, UNIT * STUD_RADIUS * math.sqrt(2) * SIN
    x, y = project(item.x + 0.5, item.y + 0.5, item.z)
    lid = y - UNIT * STUD_HEIGHT
    edge, width = _edge(colour, failing)
    side = ((x + a, lid), *((x + a * math.cos(t), y + b * math.sin(t)) for t in ARC), (x - a, lid))
    yield Polygon(side, colours.darker(colour, 0.18), edge, width)
    yield Ellipse((x, lid), (a, b), colours.lighter(colour, 0.2), edge, width)


def _edge(colour: Colour, failing: bool) -> tuple[Colour, float]:
    return (colours.FAILING_EDGE, 1.8) if failing else (colours.darker(colour, 0.5), 0.8)


def _plate(ground: Ground) -> Iterator[Shape]:
    x, y, x_end, y_end = ground
    corners = ((x, y), (x_end, y), (x_end, y_end), (x, y_end))
    yield Polygon(tuple(project(i, j, 0) for i, j in corners), colours.GROUND, colours.GRID, 1.0)
    lines = [((i, y), (i, y_end)) for i in range(x + 1, x_end)] + [((x, j), (x_end, j)) for j in range(y + 1, y_end)]
    for start, end in lines:
        points = project(*start, 0), project(*end, 0)
        yield Polygon((*points, points[0]), colours.GRID, colours.GRID, 0.6)
