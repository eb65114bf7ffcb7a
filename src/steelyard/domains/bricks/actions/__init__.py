"""Action spaces: structures are written in relative, two-step or absolute coordinates, or in the text format."""

from steelyard.domains.bricks.actions.absolute import Absolute
from steelyard.domains.bricks.actions.base import ActionSpace
from steelyard.domains.bricks.actions.lines import Lines
from steelyard.domains.bricks.actions.order import in_building_order
from steelyard.domains.bricks.actions.relative import Relative
from steelyard.domains.bricks.actions.two_step import TwoStep

__all__ = ["Absolute", "ActionSpace", "Lines", "Relative", "TwoStep", "in_building_order"]
