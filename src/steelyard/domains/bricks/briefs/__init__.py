"""Briefs: what a structure is for, with parameters, graded by a program. Stability alone ends in meaningless heaps."""

from steelyard.domains.bricks.briefs.base import Brief
from steelyard.domains.bricks.briefs.captions import Caption, read_captions
from steelyard.domains.bricks.briefs.catalogue import COUNTABLE, KINDS, brief_of, catalogue, in_turn, split_of
from steelyard.domains.bricks.briefs.shapes import Shape
from steelyard.domains.bricks.briefs.spans import Bridge, Cantilever
from steelyard.domains.bricks.briefs.stairs import Stairs
from steelyard.domains.bricks.briefs.table import Table
from steelyard.domains.bricks.briefs.upright import Tower, Wall

__all__ = [
    "COUNTABLE",
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
    "in_turn",
    "read_captions",
    "split_of",
]
