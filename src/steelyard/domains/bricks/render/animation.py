"""GIF animation of a structure growing brick by brick."""

from __future__ import annotations

from steelyard.domains.artifacts import ColourBy
from steelyard.domains.bricks.render.isometric import draw, ground_of
from steelyard.domains.bricks.stability import Stability
from steelyard.domains.bricks.structure import Structure
from steelyard.drawing import Scene, gif

MAX_FRAMES = 120


def animate(
    structure: Structure,
    *,
    by: ColourBy = "part",
    stability: Stability | None = None,
    scale: float = 1.0,
    milliseconds: int = 180,
    last: int = 2000,
) -> bytes:
    """Draw the bricks in order, with the same view for every frame. Large structures grow by several bricks per
    frame. With ``by="stress"``, only the last frame shows stress, because partial structures are not analysed.
    """
    if not structure.bricks:
        raise ValueError("an animation needs at least one brick")
    ground = ground_of(structure.bricks)
    complete = draw(structure, by=by, stability=stability, ground=ground)
    step = max(1, -(-len(structure) // MAX_FRAMES))
    scenes: list[Scene] = []
    for count in range(step, len(structure), step):
        part = Structure(structure.bricks[:count], structure.world)
        scenes.append(Scene(draw(part, ground=ground).shapes, complete.frame))
    scenes.append(complete)
    return gif(scenes, scale=scale, milliseconds=[milliseconds] * (len(scenes) - 1) + [last])
