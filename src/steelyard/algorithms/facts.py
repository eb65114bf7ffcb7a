"""What an advantage estimator can request besides rewards and groups: it names them as parameters.

    def correct_then_short(reward_M, group_M, parts, lengths):
        score_M = torch.nan_to_num(parts["correct"]) - 0.001 * lengths
        return group_mean(score_M, group_M)

The first two parameters are always rewards and groups. Each further one that is named like a field of `SampleFacts` is
passed by its name; an estimator with two parameters is called with rewards and groups alone.
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
    """The named parts of the verdicts, ``parts["correct"]`` of shape ``[M]`` in float64. A sample without a part (a
    rejected one has none) is NaN there; ``torch.nan_to_num`` or ``torch.where`` decide what that counts as.
    """

    def __init__(self, parts: Sequence[Mapping[str, float]]) -> None:
        names = dict.fromkeys(name for own in parts for name in own)
        super().__init__(
            {name: torch.tensor([own.get(name, math.nan) for own in parts], dtype=torch.float64) for name in names}
        )
        self.samples = len(parts)
        self.absent: set[str] = set()
        """Names that were looked up and that no sample has."""

    def __missing__(self, name: str) -> Tensor:
        self.absent.add(name)
        return torch.full((self.samples,), math.nan, dtype=torch.float64)


@dataclass(frozen=True, slots=True, eq=False)
class SampleFacts:
    """One entry per sample, in the order of the rewards. Samples that are not learnt from are absent, as they are from
    the rewards.
    """

    parts: RewardParts
    """Named parts of the reward, as the verifier gave them: before penalties for length, truncation and KL."""
    lengths: Tensor
    """Tokens of the completion."""
    decisions: Tensor
    """Sampled tokens: a forced one is not a decision."""
    truncated: Tensor
    """Whether the sample was cut off at the length limit (bool)."""
    tasks: tuple[Task, ...]


FACTS = tuple(field.name for field in fields(SampleFacts))
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
"""Parameters that can be passed by name."""


def requested(estimator: Callable[..., Any]) -> tuple[str, ...]:
    """The facts that an estimator names as parameters after rewards and groups."""
    try:
        parameters = list(inspect.signature(estimator).parameters.values())[2:]
    except (TypeError, ValueError):  # some built-in functions do not tell
        return ()
    return tuple(one.name for one in parameters if one.kind in NAMED and one.name in FACTS)


def with_facts(estimator: Callable[..., Tensor], facts: Callable[[], SampleFacts]) -> RewardEstimator:
    """The estimator as a function of rewards and groups; ``facts`` is called only if it requests any."""
    names = requested(estimator)
    if not names:
        return estimator
    known = facts()
    return partial(estimator, **{name: getattr(known, name) for name in names})
