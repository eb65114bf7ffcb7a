"""Briefs: parameterised purposes for structures. A program measures how well a structure fulfils its brief.

Rewarding stability alone leads to meaningless heaps.
"""

from steelyard.domains.bricks.briefs.base import Brief
from steelyard.domains.bricks.briefs.captions import Caption, read_captions
from steelyard.domains.bricks.briefs.catalogue import GRID_KINDS, KINDS, brief_of, catalogue, interleaved, split_of
from steelyard.domains.bricks.briefs.shapes import Shape
from steelyard.domains.bricks.briefs.spans import Bridge, Cantilever
from steelyard.domains.bricks.briefs.stairs import Stairs
from steelyard.domains.bricks.briefs.table import Table
from steelyard.domains.bricks.briefs.upright import Tower, Wall

__all__ = [
    "GRID_KINDS",
    "KINDS",
    "Bridge",
    "Brief",
    "Cantilever",
    "Caption",
    "Shape",
    "Stairs",
    "Table",
    "Tower",
    "Wall",
    "brief_of",
    "catalogue",
    "interleaved",
    "read_captions",
    "split_of",
]
