"""A rejected sample never beats a scored sample by accident, regardless of the sign of the rewards."""

from __future__ import annotations

import numpy as np

from benchmarks.correctness.seam_checks import SeamCheck
from steelyard.algorithms.advantages import group_norm
from steelyard.errors import Invalid
from steelyard.training.credit import Credit
from steelyard.training.phases import verify
from steelyard.types import Decisions, Group, Sample, SampleKey, Task, Verdict
from steelyard.verification import AnyVerifier, InlinePool, Item, as_verifier, pool_for

SIZE = 8
INVALID = 0.3
"""Fraction of samples the verifier rejects."""


def likelihood(_: Task, text: str) -> float:
    """Return a (negative) log-likelihood, or reject text that is too long."""
    if text.startswith("!"):
        raise Invalid("too long")
    return -2.3 + float(text.lstrip("!"))


def closeness(_: Task, text: str) -> float:
    """Return a value between 0 and 1; with a weight of -1, the best value becomes the worst."""
    return abs(float(text.lstrip("!"))) % 1.0


def _groups(verifier: AnyVerifier, count: int) -> list[Group]:
    rng = np.random.default_rng(0)
    groups: list[Group] = []
    for slot in range(count):
        task = Task(str(slot), "")
        marks = np.where(rng.random(SIZE) < INVALID, "!", "")
        samples = tuple(
            _sample(slot, index, f"{mark}{value:.6f}")
            for index, (mark, value) in enumerate(zip(marks, rng.uniform(0, 1.5, SIZE), strict=True))
        )
        verdicts = verify(pool_for(verifier, InlinePool), [Item(task, sample, SIZE) for sample in samples])
        groups.append(Group(task, samples, tuple(verdicts)))
    return groups


def _sample(slot: int, index: int, text: str) -> Sample:
    one = np.zeros(1, np.int32)
    decisions = Decisions(one + 1, one, one.astype(np.float32))
    return Sample(SampleKey(0, slot, 0, index), np.zeros(2, np.int32), 1, text, "stop", decisions)


def _beaten(groups: list[Group]) -> float:
    """Return the fraction of rejected samples with a higher advantage than some scored sample in their group."""
    credit = Credit(group_norm)
    rejected, above = 0, 0
    for group in groups:
        credited = credit.assign([group])
        advantages = [float(item.advantage_N[0]) for item in credited]
        scored = [value for value, one in zip(advantages, group.verdicts, strict=True) if one.status == "scored"]
        own = [value for value, one in zip(advantages, group.verdicts, strict=True) if one.status == "rejected"]
        rejected += len(own)
        above += sum(value > min(scored, default=value) for value in own)
    return above / rejected


def likelihood_judge(quick: bool) -> float:
    return _beaten(_groups(as_verifier(likelihood), 50 if quick else 500))


def opposite_weights(quick: bool) -> float:
    def valid(_: Task, text: str) -> float | Verdict:
        return Verdict.rejected("marked") if text.startswith("!") else 0.5

    return _beaten(_groups(as_verifier([(valid, 1.0), (closeness, -1.0)]), 50 if quick else 500))


CHECKS = (
    SeamCheck("floors", "rejected above a scored sample, likelihood reward", 1.0, likelihood_judge, "<=", 0.0),
    SeamCheck("floors", "rejected above a scored sample, weights (1, -1)", 0.818, opposite_weights, "<=", 0.0),
)
