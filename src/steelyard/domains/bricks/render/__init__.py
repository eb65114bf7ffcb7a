"""Isometric pictures of structures with studs, coloured by part or by stress."""

from steelyard.domains.bricks.render.animation import animate
from steelyard.domains.bricks.render.isometric import draw
from steelyard.domains.bricks.render.sheet import Card, contact_sheet
from steelyard.drawing import Scene, png, svg

__all__ = ["Card", "Scene", "animate", "contact_sheet", "draw", "png", "svg"]
