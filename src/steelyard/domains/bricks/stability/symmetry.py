"""A stability verdict that is invariant under rotations and reflections: the worst over all images of a structure.

The published contact points under wide bricks (``statics.WIDE``) are not symmetric in x, so a structure and its mirror
image may get different verdicts. The contact points are symmetric in y, so four of the eight images suffice. Every
image is moved to the origin and its bricks are sorted, so that any two images of a structure yield identical programs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard.domains.bricks.images import LoadedStructure, at_origin, images, mirrored, turned
from steelyard.domains.bricks.stability.assessment import Method, Stability, assess_as_given, largest_pull
from steelyard.domains.bricks.stability.physics import PUBLISHED, Load, Physics
from steelyard.domains.bricks.stability.solvers import Backend
from steelyard.domains.bricks.stability.statics import Floats
from steelyard.domains.bricks.structure import Brick, Structure

Ordered = tuple[tuple[Brick, ...], tuple[Load, ...]]


def assess(
    structure: Structure,
    loads: Sequence[Load] = (),
    *,
    physics: Physics = PUBLISHED,
    method: Method = "highs",
    symmetric: bool = False,
) -> Stability:
    """Analyse the stability of a structure. ``symmetric`` uses the worst result over all rotations and reflections."""
    if symmetric and method != "connectivity":
        return assess_symmetric(structure, loads, physics=physics, method=method)
    return assess_as_given(structure, loads, physics=physics, method=method)


def largest_pull_symmetric(
    structure: Structure, loads: Sequence[Load] = (), *, physics: Physics = PUBLISHED, backend: Backend = "highs"
) -> float:
    """Return the largest t over all rotations and reflections, in newtons."""
    pulls = [
        largest_pull(Structure(bricks, structure.world), image_loads, physics=physics, backend=backend)
        for bricks, image_loads in representatives(structure, loads)
    ]
    return max(pulls, default=0.0)


def assess_symmetric(
    structure: Structure, loads: Sequence[Load] = (), *, physics: Physics = PUBLISHED, method: Backend = "highs"
) -> Stability:
    """Analyse the image with the largest t. The forces are omitted because they act on that image."""
    if not structure.bricks:
        return assess_as_given(structure, loads, physics=physics, method=method)
    found = representatives(structure, loads)
    pulls = [largest_pull(Structure(b, structure.world), i, physics=physics, backend=method) for b, i in found]
    worst = int(np.argmax(pulls))
    bricks, image_loads = found[worst]
    verdict = assess_as_given(Structure(bricks, structure.world), image_loads, physics=physics, method=method)
    score_B = _scores_back(structure, loads, found[worst], verdict.score_B)
    failing = tuple(np.flatnonzero(score_B >= 1.0).tolist())
    return Stability(verdict.stands, verdict.pull, score_B, failing)


def representatives(structure: Structure, loads: Sequence[Load]) -> list[Ordered]:
    """Return the distinct images up to reflection in y, in a fixed order."""
    return sorted({min(_ordered(*image), _ordered(*mirrored_in_y(*image))) for image in images(structure, loads)})


def mirrored_in_y(structure: Structure, loads: Sequence[Load] = ()) -> LoadedStructure:
    """Reflect along y, y → Y − 1 − y, as a reflection along x followed by a half turn."""
    return turned(*turned(*mirrored(structure, loads)))


def _ordered(structure: Structure, loads: Sequence[Load]) -> Ordered:
    moved, moved_loads = at_origin(structure, loads)
    return tuple(sorted(moved.bricks)), tuple(sorted(moved_loads))


def _scores_back(structure: Structure, loads: Sequence[Load], image: Ordered, score_B: Floats) -> Floats:
    """Map scores of a sorted image back to the order of the structure's bricks."""
    for candidate in images(structure, loads):
        if _ordered(*candidate) == image:
            bricks = at_origin(*candidate)[0].bricks
            index_of = {brick: index for index, brick in enumerate(image[0])}
            return score_B[[index_of[brick] for brick in bricks]]
    raise AssertionError("every representative is one of the images")
