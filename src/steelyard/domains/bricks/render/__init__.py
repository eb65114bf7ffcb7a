"""Pictures of structures: isometric, with studs, coloured by part or by stress."""

from steelyard.domains.bricks.render.film import film
from steelyard.domains.bricks.render.isometric import draw
from steelyard.domains.bricks.render.sheet import Card, contact_sheet
from steelyard.drawing import Scene, png, svg

__all__ = ["Card", "Scene", "contact_sheet", "draw", "film", "png", "svg"]
