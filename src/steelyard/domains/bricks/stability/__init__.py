"""Stability analysis: find an equilibrium of contact forces that minimises the largest pull (tensile force)."""

from steelyard.domains.bricks.stability.assessment import Method, Stability, largest_pull
from steelyard.domains.bricks.stability.forces import Forces
from steelyard.domains.bricks.stability.physics import Load, Physics
from steelyard.domains.bricks.stability.symmetry import assess

__all__ = ["Forces", "Load", "Method", "Physics", "Stability", "assess", "largest_pull"]
