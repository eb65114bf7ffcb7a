"""What becomes of a structure under its brief: does it stand with its load, hang together, and serve its purpose."""

from __future__ import annotations

import math
from dataclasses import dataclass

from steelyard.domains.bricks.briefs import Brief
from steelyard.domains.bricks.connectivity import floating
from steelyard.domains.bricks.stability import Method, largest_pull
from steelyard.domains.bricks.stability.physics import PUBLISHED
from steelyard.domains.bricks.stability.symmetry import largest_pull_symmetric
from steelyard.domains.bricks.structure import Structure

FALLEN = 0.5
"""The most that a structure which does not stand gets for its stability."""


@dataclass(frozen=True)
class Outcome:
    """Figures from 0 to 1, and what they come to."""

    purpose: float
    """How far the form is what the brief asks for."""
    fulfilled: bool
    connectivity: float
    """The share of bricks that reach the ground."""
    pull: float
    """The largest pull under the brief's loads in newtons, infinite if a brick floats."""

    @property
    def stands(self) -> bool:
        return self.pull < PUBLISHED.capacity

    @property
    def stability(self) -> float:
        """1 if it stands, else half the capacity over the pull: the nearer, the better, and never near 1."""
        return 1.0 if self.stands else FALLEN * PUBLISHED.capacity / self.pull

    @property
    def success(self) -> bool:
        """It stands with its loads, every brick reaches the ground, and the brief is fulfilled."""
        return self.stands and self.connectivity == 1.0 and self.fulfilled


def outcome(structure: Structure, brief: Brief, *, method: Method = "highs", symmetric: bool = False) -> Outcome:
    """Judge a structure of at least one brick. ``symmetric``: the worst of all turns and mirrors."""
    purpose = brief.fulfilment(structure)
    afloat = len(floating(structure))
    return Outcome(
        purpose,
        brief.suffices(purpose),
        1 - afloat / len(structure),
        math.inf if afloat else _pull(structure, brief, method, symmetric),
    )


def _pull(structure: Structure, brief: Brief, method: Method, symmetric: bool) -> float:
    if method == "connectivity":
        return 0.0
    find = largest_pull_symmetric if symmetric else largest_pull
    return find(structure, brief.loads(structure), backend=method)
