"""Groups with nothing to teach are found after truncation, length and steps, and the source hears of all groups."""

from __future__ import annotations

import numpy as np

from benchmarks.correctness.seam_checks import SeamCheck
from steelyard.algorithms.advantages import best_of_group
from steelyard.training.credit import Credit, LengthPenalty
from steelyard.types import Decisions, FinishReason, Group, Sample, SampleKey, Task, Verdict

Made = tuple[float, int, FinishReason]
"""Reward, length and end of a sample."""
PENALISED = Credit(truncated="penalise", truncation_penalty=1.0)
CASES: tuple[tuple[Credit, tuple[Made, Made], bool], ...] = (
    (Credit(), ((1000.0, 2, "stop"), (1000.0009, 2, "stop")), False),
    (Credit(), ((0.1 + 0.2, 2, "stop"), (0.3, 2, "stop")), True),
    (Credit(length_penalty=LengthPenalty(8, 4)), ((1.0, 2, "stop"), (1.0, 8, "stop")), False),
    (PENALISED, ((1.0, 2, "stop"), (1.0, 2, "length")), False),
    (PENALISED, ((1.0, 2, "stop"), (2.0, 2, "length")), True),
    (Credit(truncated="mask"), ((1.0, 2, "stop"), (2.0, 2, "length")), True),
    (Credit(estimator=best_of_group), ((1.0, 2, "stop"), (1.0, 2, "stop")), True),
)
"""Credit, a group of two, and whether it is dead."""


def _group(made: tuple[Made, Made]) -> Group:
    samples = tuple(_sample(index, length, finish) for index, (_, length, finish) in enumerate(made))
    return Group(Task("t", ""), samples, tuple(Verdict.scored(reward) for reward, _, _ in made))


def _sample(index: int, length: int, finish: FinishReason) -> Sample:
    place_N = np.arange(length, dtype=np.int32)
    decisions = Decisions(place_N + 1, place_N, np.zeros(length, np.float32))
    return Sample(SampleKey(0, 0, 0, index), np.zeros(length + 1, np.int32), 1, "", finish, decisions)


def wrong(_: bool) -> float:
    """Cases in which a group is taken for dead and is not, or the other way round."""
    return float(sum(credit.dead(_group(made)) != dead for credit, made, dead in CASES))


CHECKS = (SeamCheck("dead groups", f"wrong of {len(CASES)} groups", 4.0, wrong, "<=", 0.0),)
