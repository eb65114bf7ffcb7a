"""Groups without a learning signal are detected after truncation, length penalty and step rewards."""

from __future__ import annotations

import numpy as np

from benchmarks.correctness.seam_checks import SeamCheck
from steelyard.algorithms.advantages import best_of_group
from steelyard.training.credit import Credit, LengthPenalty
from steelyard.types import Decisions, FinishReason, Group, Sample, SampleKey, Task, Verdict

SampleSpec = tuple[float, int, FinishReason]
"""A sample's reward, length and finish reason."""
PENALISED = Credit(truncated="penalise", truncation_penalty=1.0)
CASES: tuple[tuple[Credit, tuple[SampleSpec, SampleSpec], bool], ...] = (
    (Credit(), ((1000.0, 2, "stop"), (1000.0009, 2, "stop")), False),
    (Credit(), ((0.1 + 0.2, 2, "stop"), (0.3, 2, "stop")), True),
    (Credit(length_penalty=LengthPenalty(8, 4)), ((1.0, 2, "stop"), (1.0, 8, "stop")), False),
    (PENALISED, ((1.0, 2, "stop"), (1.0, 2, "length")), False),
    (PENALISED, ((1.0, 2, "stop"), (2.0, 2, "length")), True),
    (Credit(truncated="mask"), ((1.0, 2, "stop"), (2.0, 2, "length")), True),
    (Credit(estimator=best_of_group), ((1.0, 2, "stop"), (1.0, 2, "stop")), True),
)
"""Credit settings, a group of two, and whether the group is dead."""


def _group(specs: tuple[SampleSpec, SampleSpec]) -> Group:
    samples = tuple(_sample(index, length, finish) for index, (_, length, finish) in enumerate(specs))
    return Group(Task("t", ""), samples, tuple(Verdict.scored(reward) for reward, _, _ in specs))


def _sample(index: int, length: int, finish: FinishReason) -> Sample:
    place_N = np.arange(length, dtype=np.int32)
    decisions = Decisions(place_N + 1, place_N, np.zeros(length, np.float32))
    return Sample(SampleKey(0, 0, 0, index), np.zeros(length + 1, np.int32), 1, "", finish, decisions)


def wrong(_: bool) -> float:
    """Count the groups wrongly classified as dead or not dead."""
    return float(sum(credit.dead(_group(specs)) != dead for credit, specs, dead in CASES))


CHECKS = (SeamCheck("dead groups", f"misclassified groups, of {len(CASES)}", 4.0, wrong, "<=", 0.0),)
