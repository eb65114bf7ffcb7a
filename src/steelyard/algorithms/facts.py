"""Additional inputs that an advantage estimator can request by naming them as parameters.

    def correct_then_short(reward_M, group_M, parts, lengths):
        score_M = torch.nan_to_num(parts["correct"]) - 0.001 * lengths
        return group_mean(score_M, group_M)

The first two parameters are always rewards and groups. Every additional parameter whose name is a field of
`SampleFacts` receives that field.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import torch
from torch import Tensor

from steelyard.types import Task

RewardEstimator = Callable[[Tensor, Tensor], Tensor]
"""``(reward_M, group_M) -> advantage_M``."""


class RewardParts(dict[str, Tensor]):
    """The named reward parts of the verdicts: ``parts["correct"]`` has shape ``[M]`` in float64.

    The entry is NaN for a sample without that part, for example a rejected one. Use ``torch.nan_to_num`` or
    ``torch.where`` to replace NaN.
    """

    def __init__(self, parts: Sequence[Mapping[str, float]]) -> None:
        names = dict.fromkeys(name for sample_parts in parts for name in sample_parts)
        super().__init__(
            {name: torch.tensor([one.get(name, math.nan) for one in parts], dtype=torch.float64) for name in names}
        )
        self.samples = len(parts)
        self.missing: set[str] = set()
        """Reward parts that were looked up but that no sample has."""

    def __missing__(self, name: str) -> Tensor:
        self.missing.add(name)
        return torch.full((self.samples,), math.nan, dtype=torch.float64)


@dataclass(frozen=True, slots=True, eq=False)
class SampleFacts:
    """One entry per sample, in the order of the rewards. Samples excluded from learning are not included."""

    parts: RewardParts
    """Named parts of the reward as the verifier returned them, before penalties for length, truncation and KL."""
    lengths: Tensor
    """Number of tokens in the completion."""
    decisions: Tensor
    """Number of sampled tokens. Forced tokens are not decisions."""
    truncated: Tensor
    """Whether the sample was cut off at the length limit (bool)."""
    tasks: tuple[Task, ...]


FACTS = tuple(field.name for field in fields(SampleFacts))
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
"""Kinds of parameters that can be passed by name."""


def requested_facts(estimator: Callable[..., Any]) -> tuple[str, ...]:
    """Return the facts that an estimator names as parameters after rewards and groups."""
    try:
        parameters = list(inspect.signature(estimator).parameters.values())[2:]
    except (TypeError, ValueError):  # some built-in functions have no signature
        return ()
    return tuple(parameter.name for parameter in parameters if parameter.kind in NAMED and parameter.name in FACTS)


def with_facts(estimator: Callable[..., Tensor], facts: Callable[[], SampleFacts]) -> RewardEstimator:
    """Bind the facts that the estimator requests. ``facts`` is called only if it requests any."""
    names = requested_facts(estimator)
    if not names:
        return estimator
    values = facts()
    return partial(estimator, **{name: getattr(values, name) for name in names})
