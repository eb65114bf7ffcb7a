"""Recompute supports that a sampler did not record, before the update.

The state machine of a constraint is run again over the sample's tokens. A cut (top-k, top-p, min-p) is repeated with
the *old* weights, which the sample was drawn with; the sampled token is always included. A repeated cut is exact up to
differences between kernels: a token at the edge of the cut may fall on the other side. The supports are then stored
with the sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from steelyard.constraints.base import Bits
from steelyard.constraints.support_tables import SupportTableWriter, recompute_supports
from steelyard.errors import TrainingError
from steelyard.policies.base import Policy
from steelyard.training.learner_samples import by_length
from steelyard.types import CutRule, Group, Sample


def with_supports(policy: Policy, groups: Sequence[Group], tokens: int) -> list[Group]:
    """Return the groups with the supports of all samples; ``tokens`` is the number of padded tokens per batch."""
    samples = [sample for group in groups for sample in group.samples]
    if not any(sample.decisions.supports_omitted for sample in samples):
        return list(groups)
    completed = iter(find_supports(policy, samples, tokens))
    return [replace(group, samples=tuple(next(completed) for _ in group.samples)) for group in groups]


def find_supports(policy: Policy, samples: Sequence[Sample], tokens: int) -> list[Sample]:
    """Return the samples, each with its supports; ``tokens`` is the number of padded tokens per batch."""
    completed = [
        _with_constraint_supports(policy, sample) if sample.decisions.supports_omitted else sample for sample in samples
    ]
    by_rule: dict[CutRule, list[int]] = {}
    for index, sample in enumerate(samples):
        rule = sample.decisions.rule
        if sample.decisions.supports_omitted and rule.cuts and len(sample.decisions):
            by_rule.setdefault(rule, []).append(index)
    policy.train(False)
    for rule, indices in by_rule.items():
        for batch_indices in by_length([len(samples[index].token_ids) for index in indices], tokens):
            batch = [completed[indices[index]] for index in batch_indices]
            sets = iter(policy.kept_tokens(policy.collate(batch), rule))
            for index, sample in zip(batch_indices, batch, strict=True):
                completed[indices[index]] = _with_supports_stored(
                    sample, [next(sets) for _ in range(len(sample.decisions))], policy
                )
    return completed


def _with_constraint_supports(policy: Policy, sample: Sample) -> Sample:
    """Return the sample with the supports that the constraint allowed, before any cut."""
    recipe = sample.decisions.support_recipe
    if recipe is None:
        return _with_supports_stored(sample, [None] * len(sample.decisions), policy)
    if policy.constraint is None:
        raise TrainingError(
            f"sample {tuple(sample.key)} was drawn with a constraint, but the policy has none: set the same constraint"
        )
    return _with_supports_stored(sample, recompute_supports(policy.constraint, recipe, sample), policy)


def _with_supports_stored(sample: Sample, sets: Sequence[Bits | None], policy: Policy) -> Sample:
    trail = SupportTableWriter(policy.vocabulary)
    index_N = np.asarray([-1 if bits is None else trail.add(bits) for bits in sets], np.int32)
    decisions = replace(
        sample.decisions, support_N=index_N, supports=trail.table(), supports_omitted=False, support_recipe=None
    )
    return replace(sample, decisions=decisions)
