"""Renders scenes as SVG."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from steelyard.drawing.scene import PAPER, Colour, Ellipse, Label, Line, Point, Polygon, Scene, Shape


def svg(scene: Scene) -> str:
    """Return an SVG document with a white background."""
    left, top, _, _ = scene.frame
    width, height = scene.size
    box = f"{left:.1f} {top:.1f} {width:.1f} {height:.1f}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" width="{width:.0f}" height="{height:.0f}" '
        f'font-family="sans-serif" stroke-linejoin="round">\n'
    )
    paper = f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{_hex(PAPER)}"/>\n'
    return head + paper + "\n".join(_element(shape) for shape in scene.shapes) + "\n</svg>\n"


def _element(shape: Shape) -> str:
    match shape:
        case Label():
            return _text(shape)
        case Line():
            style = f'fill="none" stroke="{_hex(shape.edge)}" stroke-width="{shape.width:.2g}"'
            return f'<polyline points="{_points(shape.points)}" {style}/>'
        case Ellipse():
            (x, y), (a, b) = shape.centre, shape.radii
            return f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{a:.2f}" ry="{b:.2f}" {_style(shape)}/>'
        case Polygon():
            opacity = "" if shape.opacity == 1.0 else f' fill-opacity="{shape.opacity:.2g}"'
            return f'<polygon points="{_points(shape.points)}" {_style(shape)}{opacity}/>'


def _style(shape: Polygon | Ellipse) -> str:
    style = f'fill="{"none" if shape.fill is None else _hex(shape.fill)}"'
    return style if shape.edge is None else f'{style} stroke="{_hex(shape.edge)}" stroke-width="{shape.width:.2g}"'


def _text(label: Label) -> str:
    (x, y), text = label.at, escape(_printable(label.text))
    style = f'font-size="{label.size:.1f}" fill="{_hex(label.fill)}"'
    if label.anchor != "start":
        style += f' text-anchor="{label.anchor}"'
    if label.upward:
        style += f' transform="rotate(-90 {x:.1f} {y:.1f})"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{text}</text>'


def _printable(text: str) -> str:
    """Replace control characters: XML does not allow them, but a verifier's message may contain some."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _hex(colour: Colour) -> str:
    return "#" + "".join(f"{part:02x}" for part in colour)
