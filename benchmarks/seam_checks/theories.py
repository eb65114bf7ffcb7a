"""Theories: which vacua may skip the exotics condition, and which verdicts follow."""

from __future__ import annotations

from benchmarks.seam_checks import SeamCheck
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


CHECKS = (
    SeamCheck(
        item="theories: breaking a force does not bypass the exotics condition",
        figure=f"successes among {len(BREAKING) * len(UNSEEN)} theories with massless charged scalars",
        before=15,
        measure=hidden_exotics,
        comparison="<=",
        bar=0,
    ),
)
