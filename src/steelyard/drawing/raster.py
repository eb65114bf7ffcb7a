"""Renders supersampled PNG and GIF images with Pillow (requires the ``pictures`` extra).

No other module imports Pillow.
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from steelyard.drawing.scene import PAPER, Ellipse, Label, Line, Polygon, Scene, Shape
from steelyard.errors import MissingExtraError

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

FINER = 4
"""Supersampling factor per axis; halved for pictures at a scale of 2 or more."""
MAX_PIXELS = 40_000_000
LETTERS = frozenset(map(chr, range(0x20, 0x7F))) | frozenset("·…±°’‘“”")
"""Characters in Pillow's default font."""
SPELLINGS = {"×": "x", "−": "-", "–": "-", "—": "-", "→": "->", "≤": "<=", "≥": ">=", "λ": "lambda", "μ": "mu"}
ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}
"""Pillow's names for the anchors of a label."""


def png(scene: Scene, *, scale: float = 1.0) -> bytes:
    """Return a PNG file with ``scale`` pixels per unit."""
    out = io.BytesIO()
    image(scene, scale=scale).save(out, "PNG", optimize=True)
    return out.getvalue()


def gif(scenes: Sequence[Scene], *, scale: float, milliseconds: Sequence[int]) -> bytes:
    """Return a looping GIF that shows each scene for its duration. All scenes must have the same frame."""
    frames = [image(scene, scale=scale).quantize(128) for scene in scenes]
    out = io.BytesIO()
    rest = frames[1:]
    frames[0].save(out, "GIF", save_all=True, append_images=rest, duration=list(milliseconds), loop=0, disposal=1)
    return out.getvalue()


def image(scene: Scene, *, scale: float = 1.0) -> Image:
    """Render the scene as a Pillow image."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise MissingExtraError("PNG and GIF images", "pictures") from None
    width, height = (max(1, round(scale * side)) for side in scene.size)
    if width * height > MAX_PIXELS:
        raise ValueError(f"scale = {scale} gives an image of {width} x {height} pixels, which is too large; lower it")
    finer = FINER if scale < 2 else FINER // 2
    fine = Image.new("RGB", (width * finer, height * finer), PAPER)
    factor = scale * finer
    moved = scene.placed(factor, -factor * scene.frame[0], -factor * scene.frame[1])
    pen = ImageDraw.Draw(fine)
    for shape in moved.shapes:
        _paint(fine, pen, shape)
    return fine.resize((width, height), Image.Resampling.BOX)


def _paint(image: Image, pen: ImageDraw, shape: Shape) -> None:
    match shape:
        case Label():
            _write(image, pen, shape)
        case Line():
            pen.line(shape.points, fill=shape.edge, width=max(1, round(shape.width)), joint="curve")
        case Ellipse():
            (x, y), (a, b) = shape.centre, shape.radii
            box = (x - a, y - b, x + a, y + b)
            pen.ellipse(box, fill=shape.fill, outline=shape.edge, width=round(shape.width))
        case Polygon():
            _fill(image, pen, shape)


def _fill(image: Image, pen: ImageDraw, shape: Polygon) -> None:
    from PIL import ImageDraw

    if shape.fill is not None and shape.opacity == 1.0:
        pen.polygon(shape.points, fill=shape.fill)
    elif shape.fill is not None:
        blending = ImageDraw.Draw(image, "RGBA")  # supports blending, but is slower than opaque drawing
        blending.polygon(shape.points, fill=(*shape.fill, round(255 * shape.opacity)))
    if shape.edge is not None and round(shape.width):
        pen.line([*shape.points, *shape.points[:2]], fill=shape.edge, width=round(shape.width), joint="curve")


def _write(image: Image, pen: ImageDraw, label: Label) -> None:
    from PIL import Image, ImageDraw, ImageFont

    font, text, anchor = ImageFont.load_default(label.size), transliterate(label.text), ANCHORS[label.anchor]
    if not label.upward:
        pen.text(label.at, text, fill=label.fill, font=font, anchor=anchor)
        return
    left, top, right, bottom = (round(side) for side in font.getbbox(text, anchor=anchor))
    mask = Image.new("L", (max(1, right - left), max(1, bottom - top)))
    ImageDraw.Draw(mask).text((-left, -top), text, fill=255, font=font, anchor=anchor)
    x, y = (round(place) for place in label.at)
    image.paste(label.fill, (x + top, y - right), mask.transpose(Image.Transpose.ROTATE_90))


def transliterate(text: str) -> str:
    """Replace characters that Pillow's default font lacks: ``×`` becomes x, and é becomes e."""
    return "".join(letter if letter in LETTERS else _spelling(letter) for letter in text)


def _spelling(letter: str) -> str:
    parts = [part for part in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(part)]
    raised = "^" if unicodedata.decomposition(letter).startswith("<super>") else ""
    return raised + "".join(SPELLINGS.get(part, part if part in LETTERS else "?") for part in parts)
