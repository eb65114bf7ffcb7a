"""Outcome of a structure for its brief: stability under the load, connectivity and purpose."""

from __future__ import annotations

import math
from dataclasses import dataclass

from steelyard.domains.bricks.briefs import Brief
from steelyard.domains.bricks.connectivity import floating
from steelyard.domains.bricks.stability import Method, largest_pull
from steelyard.domains.bricks.stability.physics import PUBLISHED
from steelyard.domains.bricks.stability.symmetry import largest_pull_symmetric
from steelyard.domains.bricks.structure import Structure

MAX_COLLAPSED_STABILITY = 0.5
"""Upper bound on the stability part for a structure that collapses."""


@dataclass(frozen=True)
class Outcome:
    """Measurements of a structure, and whether it succeeds."""

    purpose: float
    """Degree to which the form matches the brief, from 0 to 1."""
    fulfilled: bool
    connectivity: float
    """Share of bricks connected to the ground."""
    pull: float
    """Largest tensile force at a contact point under the brief's loads, in newtons; infinite if a brick floats."""

    @property
    def stands(self) -> bool:
        return self.pull < PUBLISHED.capacity

    @property
    def stability(self) -> float:
        """1 if the structure stands, otherwise half the ratio of capacity to pull, which is at most 0.5."""
        return 1.0 if self.stands else MAX_COLLAPSED_STABILITY * PUBLISHED.capacity / self.pull

    @property
    def success(self) -> bool:
        """Whether the structure stands under its loads, is connected to the ground, and fulfils the brief."""
        return self.stands and self.connectivity == 1.0 and self.fulfilled


def outcome(structure: Structure, brief: Brief, *, method: Method = "highs", symmetric: bool = False) -> Outcome:
    """Evaluate a non-empty structure. ``symmetric`` uses the worst result over all rotations and reflections."""
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
    solve = largest_pull_symmetric if symmetric else largest_pull
    return solve(structure, brief.loads(structure), backend=method)
