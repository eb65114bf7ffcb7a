"""Theories: vacua that break a force, and masses of a seesaw."""

from __future__ import annotations

from benchmarks.seam_checks import SeamCheck
from steelyard.domains.theories.known import standard_model
from steelyard.domains.theories.masses import spectrum
from steelyard.domains.theories.notation import right
from steelyard.domains.theories.prompts import standard_model_text
from steelyard.domains.theories.reward import Judge
from steelyard.types import Task

UNSEEN = ("1 1 +1", "1 1 +2", "1 3 +2/3", "1 8 0", "2 3 +1/6")
"""Scalars with charge or colour that no term gives a mass."""
BREAKING = ("1 1 +1 c1 1e3", "1 1 -2 c1 1e2", "1 3 +2/3 c1 1e3", "1 1 +1 c1 1e3 S3 1 3 +1/6 c1 1e3")
"""Vacuum expectation values that break electromagnetism, colour, or both."""


def hidden_exotics(quick: bool) -> float:
    """Theories with massless charged or coloured scalars that succeed once their vacuum breaks a force."""
    del quick
    judge, task = Judge(), Task("any", "nothing")
    successes = 0
    for vacuum in BREAKING:
        for scalar in UNSEEN:
            number = 3 + vacuum.count("S")
            text = standard_model_text().replace(" MULTIPLETS", f" S2 {vacuum} MULTIPLETS")
            text = text.replace(" INTERACTIONS", f" S{number} {scalar} INTERACTIONS")
            successes += judge(task, text).success
    return float(successes)


def neutrino_error(quick: bool) -> float:
    """The largest relative error of m = y² v² / (2 M); 1 for a neutrino that comes out massless."""
    del quick
    errors: list[float] = []
    for heavy in (1e10, 1e12, 1e14, 1e16):
        given = standard_model(right("N", "0 1 1", 3), terms=("L N H: 1", f"N N: {heavy}"))
        neutral = [
            own for own in spectrum(given).states if own.kind == "fermion" and own.colour == 1 and not own.charge
        ]
        errors.append(abs(neutral[0].mass * 2 * heavy / 246.0**2 - 1))
    return max(errors)


CHECKS = (
    SeamCheck(
        item="theories: breaking a force does not bypass the exotics condition",
        figure=f"successes among {len(BREAKING) * len(UNSEEN)} theories with massless charged scalars",
        before=15,
        measure=hidden_exotics,
        comparison="<=",
        bar=0,
    ),
    SeamCheck(
        item="theories: a type I seesaw gives neutrinos their mass",
        figure="largest relative error of y² v² / (2 M), M up to 10¹⁶ GeV",
        before=1.0,
        measure=neutrino_error,
        comparison="<=",
        bar=1e-9,
    ),
)
