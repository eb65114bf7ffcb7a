"""Supports that a sampler left out, found again before the update.

A constraint is followed along the sample's tokens once more; a cut is made once more with the weights the sample was
drawn with (*old* weights, so before the update), the drawn token always included. The second is as exact as two kernels
agree: a token at the very edge of a cut may fall on the other side. What is found is stored from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from steelyard.constraints.base import Bits
from steelyard.constraints.trail import TrailWriter, replayed
from steelyard.errors import TrainingError
from steelyard.policies.base import Policy
from steelyard.training.learner_samples import by_length
from steelyard.types import CutRule, Group, Sample


def with_supports(policy: Policy, groups: Sequence[Group], tokens: int) -> list[Group]:
    """Groups whose samples all carry their supports; ``tokens`` padded tokens are run at once."""
    samples = [sample for group in groups for sample in group.samples]
    if not any(sample.decisions.left_out for sample in samples):
        return list(groups)
    found = iter(find_supports(policy, samples, tokens))
    return [replace(group, samples=tuple(next(found) for _ in group.samples)) for group in groups]


def find_supports(policy: Policy, samples: Sequence[Sample], tokens: int) -> list[Sample]:
    """The samples, each with its supports."""
    found = [_follow(policy, sample) if sample.decisions.left_out else sample for sample in samples]
    open_cuts: dict[CutRule, list[int]] = {}
    for index, sample in enumerate(samples):
        rule = sample.decisions.rule
        if sample.decisions.left_out and rule.cuts and len(sample.decisions):
            open_cuts.setdefault(rule, []).append(index)
    policy.train(False)
    for rule, indices in open_cuts.items():
        for chosen in by_length([len(samples[index].token_ids) for index in indices], tokens):
            batch = [found[indices[place]] for place in chosen]
            sets = iter(policy.kept(policy.collate(batch), rule))
            for place, sample in zip(chosen, batch, strict=True):
                found[indices[place]] = _stored(sample, [next(sets) for _ in range(len(sample.decisions))], policy)
    return found


def _follow(policy: Policy, sample: Sample) -> Sample:
    """With what the constraint allowed, before any cut."""
    replay = sample.decisions.replay
    if replay is None:
        return _stored(sample, [None] * len(sample.decisions), policy)
    if policy.constraint is None:
        raise TrainingError(f"sample {tuple(sample.key)} was made under a constraint that this policy does not have")
    return _stored(sample, replayed(policy.constraint, replay, sample), policy)


def _stored(sample: Sample, sets: Sequence[Bits | None], policy: Policy) -> Sample:
    trail = TrailWriter(policy.vocabulary)
    index_N = np.asarray([-1 if bits is None else trail.add(bits) for bits in sets], np.int32)
    decisions = replace(sample.decisions, support_N=index_N, supports=trail.table(), left_out=False, replay=None)
    return replace(sample, decisions=decisions)
