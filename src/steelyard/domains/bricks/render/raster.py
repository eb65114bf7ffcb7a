"""A scene as pixels, by Pillow (extra ``bricks``): painted four times as large and made smaller. The only file that
imports it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from steelyard.domains.bricks.render.colours import PAPER
from steelyard.domains.bricks.render.scene import Ellipse, Label, Scene, Shape
from steelyard.errors import MissingExtraError

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

FINER = 4
MOST_PIXELS = 40_000_000


def png(scene: Scene, *, scale: float = 1.0) -> bytes:
    """A PNG file with ``scale`` pixels a unit."""
    out = io.BytesIO()
    image(scene, scale=scale).save(out, "PNG", optimize=True)
    return out.getvalue()


def gif(scenes: Sequence[Scene], *, scale: float, milliseconds: Sequence[int]) -> bytes:
    """A GIF that shows each scene for its time, over and over. All scenes have the same frame."""
    frames = [image(scene, scale=scale).quantize(128) for scene in scenes]
    out = io.BytesIO()
    rest = frames[1:]
    frames[0].save(out, "GIF", save_all=True, append_images=rest, duration=list(milliseconds), loop=0, disposal=1)
    return out.getvalue()


def image(scene: Scene, *, scale: float = 1.0) -> Image:
    """The picture as a Pillow image."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise MissingExtraError("PNG and GIF pictures", "bricks") from None
    width, height = (max(1, round(scale * side)) for side in scene.size)
    if width * height > MOST_PIXELS:
        raise ValueError(f"a picture of {width} x {height} pixels is too large; lower scale = {scale}")
    fine = Image.new("RGB", (width * FINER, height * FINER), PAPER)
    factor = scale * FINER
    moved = scene.placed(factor, -factor * scene.frame[0], -factor * scene.frame[1])
    pen = ImageDraw.Draw(fine)
    for shape in moved.shapes:
        _paint(pen, shape)
    return fine.resize((width, height), Image.Resampling.BOX)


def _paint(pen: ImageDraw, shape: Shape) -> None:
    if isinstance(shape, Label):
        from PIL import ImageFont

        pen.text(shape.at, shape.text, fill=shape.fill, font=ImageFont.load_default(shape.size), anchor="ls")
        return
    width = round(shape.width)
    if isinstance(shape, Ellipse):
        (x, y), (a, b) = shape.centre, shape.radii
        pen.ellipse((x - a, y - b, x + a, y + b), fill=shape.fill, outline=shape.edge, width=width)
        return
    if shape.fill is not None:
        pen.polygon(shape.points, fill=shape.fill)
    if shape.edge is not None and width:
        pen.line([*shape.points, *shape.points[:2]], fill=shape.edge, width=width, joint="curve")
