"""A structure that grows brick by brick, as a GIF."""

from __future__ import annotations

from steelyard.domains.artifacts import ColourBy
from steelyard.domains.bricks.render.isometric import draw, ground_of
from steelyard.domains.bricks.stability import Stability
from steelyard.domains.bricks.structure import Structure
from steelyard.drawing import Scene, gif

MOST_FRAMES = 120


def film(
    structure: Structure,
    *,
    by: ColourBy = "part",
    stability: Stability | None = None,
    scale: float = 1.0,
    milliseconds: int = 180,
    last: int = 2000,
) -> bytes:
    """In the order of the bricks, all frames cut alike; a large structure grows several bricks a frame. By stress, only
    the last frame is coloured by it: that of parts of a structure was not asked for.
    """
    if not structure.bricks:
        raise ValueError("a film needs at least one brick")
    ground = ground_of(structure.bricks)
    whole = draw(structure, by=by, stability=stability, ground=ground)
    step = max(1, -(-len(structure) // MOST_FRAMES))
    scenes: list[Scene] = []
    for count in range(step, len(structure), step):
        part = Structure(structure.bricks[:count], structure.world)
        scenes.append(Scene(draw(part, ground=ground).shapes, whole.frame))
    scenes.append(whole)
    return gif(scenes, scale=scale, milliseconds=[milliseconds] * (len(scenes) - 1) + [last])
