"""A scene as SVG."""

from __future__ import annotations

from html import escape

from steelyard.domains.bricks.render.scene import Colour, Ellipse, Label, Polygon, Scene, Shape


def svg(scene: Scene) -> str:
    """The whole file, on white."""
    left, top, _, _ = scene.frame
    width, height = scene.size
    box = f"{left:.1f} {top:.1f} {width:.1f} {height:.1f}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" width="{width:.0f}" height="{height:.0f}" '
        f'font-family="sans-serif" stroke-linejoin="round">\n'
    )
    paper = f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="#ffffff"/>\n'
    return head + paper + "\n".join(_element(shape) for shape in scene.shapes) + "\n</svg>\n"


def _element(shape: Shape) -> str:
    if isinstance(shape, Label):
        (x, y), text = shape.at, escape(_sayable(shape.text))
        return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{shape.size:.1f}" fill="{_hex(shape.fill)}">{text}</text>'
    style = f'fill="{"none" if shape.fill is None else _hex(shape.fill)}"'
    if shape.edge is not None:
        style += f' stroke="{_hex(shape.edge)}" stroke-width="{shape.width:.2g}"'
    if isinstance(shape, Ellipse):
        (x, y), (a, b) = shape.centre, shape.radii
        return f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{a:.2f}" ry="{b:.2f}" {style}/>'
    return f'<polygon points="{_points(shape)}" {style}/>'


def _sayable(text: str) -> str:
    """XML holds no control characters, and what a checker says may have some."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _points(shape: Polygon) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)


def _hex(colour: Colour) -> str:
    return "#" + "".join(f"{part:02x}" for part in colour)
