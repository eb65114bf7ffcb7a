"""Brick colours by part or by stress."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from steelyard.domains.bricks.parts import Part
from steelyard.drawing.scene import PAPER, Colour

PARTS: Mapping[str, Colour] = {
    "1x1": (242, 205, 55),
    "1x2": (245, 140, 40),
    "2x2": (88, 171, 65),
    "1x4": (54, 160, 200),
    "2x4": (201, 40, 38),
    "1x6": (146, 90, 170),
    "1x8": (0, 133, 120),
    "2x6": (30, 90, 168),
}
OTHERS: tuple[Colour, ...] = ((160, 110, 80), (224, 130, 170), (120, 130, 140), (170, 190, 60))
STRESS_SCALE: tuple[tuple[float, Colour], ...] = (
    (0.0, (214, 224, 232)),
    (0.35, (150, 190, 200)),
    (0.7, (246, 206, 110)),
    (1.0, (236, 128, 48)),
)
"""Colours of bricks below the capacity, by score."""
FAILING: Colour = (206, 0, 40)
FAILING_EDGE: Colour = (60, 0, 12)
GROUND: Colour = (232, 234, 236)
GRID: Colour = (212, 215, 219)


def of_part(part: Part) -> Colour:
    """Return the colour of a part; parts outside the standard library share a few colours."""
    return PARTS.get(part.name) or OTHERS[(part.h + 3 * part.w) % len(OTHERS)]


def of_score(score: float) -> Colour:
    """Interpolate from pale blue through yellow to orange; failing bricks are red."""
    if score >= 1.0:
        return FAILING
    for (low, one), (high, other) in pairwise(STRESS_SCALE):
        if score <= high:
            return mix(one, other, (score - low) / (high - low))
    return STRESS_SCALE[-1][1]


def mix(one: Colour, other: Colour, share: float) -> Colour:
    """Mix ``share`` of the second colour into the first."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue


def lighter(colour: Colour, share: float) -> Colour:
    return mix(colour, PAPER, share)


def darker(colour: Colour, share: float) -> Colour:
    return mix(colour, (0, 0, 0), share)
