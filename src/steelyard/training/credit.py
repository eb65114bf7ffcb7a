"""Credit: groups of judged samples to one advantage per decision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from steelyard import defaults
from steelyard.algorithms.advantages import Estimator, group_norm
from steelyard.algorithms.facts import RewardEstimator, RewardParts, SampleFacts, with_facts
from steelyard.algorithms.returns import returns_to_go, span_advantages
from steelyard.algorithms.shaping import Truncation, advantage_clip, handle_truncated, soft_length_penalty
from steelyard.errors import TrainingError
from steelyard.types import Group, Sample, Verdict

Array = NDArray[np.floating]
NO_ADVANTAGE = 1e-9
"""Advantages up to this size come from rounding, and move no weight."""
Kept = tuple[int, Sample, Verdict]
"""A sample that is compared with its group, and the group's number."""


@dataclass(frozen=True, slots=True)
class LengthPenalty:
    """Soft penalty on long samples: 0 up to ``limit - buffer`` tokens, then falling to ``-weight`` at ``limit``."""

    limit: int
    buffer: int
    weight: float = defaults.LENGTH_PENALTY_WEIGHT


@dataclass(frozen=True, slots=True, eq=False)
class Credited:
    """A sample with the advantage of each of its decisions."""

    sample: Sample
    advantage_N: Array


@dataclass(frozen=True, slots=True)
class Credit:
    """How rewards become advantages.

    Unscored samples, and truncated ones under ``mask``, leave their group's statistics and the loss. A group with fewer
    than ``min_scored`` samples left is dropped whole. Step rewards are discounted span by span; without them the
    sample is one span. A penalty at a decision (KL placed in the reward) is taken off the span it falls into.
    """

    estimator: Estimator = group_norm
    gamma: float = defaults.GAMMA
    clip: float | None = None
    truncated: Truncation = defaults.TRUNCATED
    truncation_penalty: float = defaults.TRUNCATION_PENALTY
    length_penalty: LengthPenalty | None = None
    min_scored: int = defaults.MIN_SCORED

    def assign(
        self,
        groups: Sequence[Group],
        *,
        penalties: Callable[[Sample], Array | None] | None = None,
    ) -> list[Credited]:
        """Advantages of all samples that are learnt from, in (slot, sample) order.

        ``penalties`` gives what is subtracted from the reward at each decision of a sample.
        """
        kept = [(number, *pair) for number, group in enumerate(groups) for pair in self.kept(group)]
        if not kept:
            return []
        spans = [_span_of_decisions(sample, verdict) for _, sample, verdict in kept]
        rewards = self._rewards(kept)
        if penalties is not None:
            rewards = [
                _less(reward_S, penalties(sample), span_N)
                for reward_S, span_N, (_, sample, _) in zip(rewards, spans, kept, strict=True)
            ]
        group_M = torch.tensor([number for number, _, _ in kept])
        advantages = span_advantages(rewards, group_M, self._estimator(groups, kept), self.gamma)
        return [
            Credited(sample, advantage_clip(advantage_S, self.clip).numpy()[span_N].astype(np.float32))
            for (_, sample, _), span_N, advantage_S in zip(kept, spans, advantages, strict=True)
        ]

    def dead(self, group: Group) -> bool:
        """Whether a group has nothing to teach: no advantage differs from zero, KL in the reward aside.

        The estimator sees the group alone, so this does not depend on what else is in the batch.
        """
        kept = [(0, *pair) for pair in self.kept(group)]
        if not kept:
            return True
        group_M = torch.zeros(len(kept), dtype=torch.int64)
        advantages = span_advantages(self._rewards(kept), group_M, self._estimator([group], kept), self.gamma)
        return not any(bool((advantage_S.abs() > NO_ADVANTAGE).any()) for advantage_S in advantages)

    def kept(self, group: Group) -> list[tuple[Sample, Verdict]]:
        """The samples of a group that are compared with each other."""
        pairs = [pair for pair in zip(group.samples, group.verdicts, strict=True) if pair[1].counts]
        _, keep_M = self._after_truncation([sample for sample, _ in pairs])
        pairs = [pair for pair, keep in zip(pairs, keep_M.tolist(), strict=True) if keep]
        return pairs if len(pairs) >= self.min_scored else []

    def _estimator(self, groups: Sequence[Group], kept: Sequence[Kept]) -> RewardEstimator:
        """The estimator with the facts about these samples that it requests; they are the same in every span."""
        return with_facts(self.estimator, partial(_facts, groups, kept))

    def _rewards(self, kept: Sequence[Kept]) -> list[list[float]]:
        """Rewards of the spans of each sample, with what length and truncation add to the last one.

        A sample rejected without a declared floor gets no more than the lowest return of a scored one in its group.
        """
        shaping_M = self._shaping([sample for _, sample, _ in kept])
        rewards = [
            _shaped(_span_rewards(verdict), float(shaping))
            for (_, _, verdict), shaping in zip(kept, shaping_M, strict=True)
        ]
        lowest: dict[int, float] = {}
        for (number, _, verdict), reward_S in zip(kept, rewards, strict=True):
            if verdict.status == "scored":
                lowest[number] = min(lowest.get(number, math.inf), returns_to_go(reward_S, self.gamma)[0])
        return [
            [min(reward_S[0], lowest.get(number, math.inf))] if verdict.open_floor else reward_S
            for (number, _, verdict), reward_S in zip(kept, rewards, strict=True)
        ]

    def _shaping(self, samples: Sequence[Sample]) -> torch.Tensor:
        """What length and truncation add to the reward of each sample."""
        shaping_M, _ = self._after_truncation(samples)
        if (rule := self.length_penalty) is not None:
            length_M = torch.tensor([len(sample.completion_ids) for sample in samples])
            shaping_M = shaping_M + rule.weight * soft_length_penalty(
                length_M, max_length=rule.limit, buffer=rule.buffer
            )
        return shaping_M

    def _after_truncation(self, samples: Sequence[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
        """What truncation adds to the reward of each sample, and which samples stay."""
        truncated_M = torch.tensor([sample.truncated for sample in samples], dtype=torch.bool)
        unshaped_M = torch.zeros(len(samples), dtype=torch.float64)
        return handle_truncated(unshaped_M, truncated_M, self.truncated, self.truncation_penalty)


def _facts(groups: Sequence[Group], kept: Sequence[Kept]) -> SampleFacts:
    samples = [sample for _, sample, _ in kept]
    return SampleFacts(
        parts=RewardParts([verdict.parts for _, _, verdict in kept]),
        lengths=torch.tensor([len(sample.completion_ids) for sample in samples]),
        decisions=torch.tensor([len(sample.decisions) for sample in samples]),
        truncated=torch.tensor([sample.truncated for sample in samples]),
        tasks=tuple(groups[number].task for number, _, _ in kept),
    )


def _span_rewards(verdict: Verdict) -> list[float]:
    """A sample without step rewards is one span."""
    return [reward for _, reward in verdict.steps] or [verdict.reward]


def _shaped(reward_S: Sequence[float], shaping: float) -> list[float]:
    return [*reward_S[:-1], reward_S[-1] + shaping]


def _span_of_decisions(sample: Sample, verdict: Verdict) -> NDArray[np.int64]:
    """The span that each decision falls into."""
    if not verdict.steps:
        return np.zeros(len(sample.decisions), np.int64)
    start_N = sample.decisions.start_N
    if start_N is None:
        raise TrainingError(
            f"sample {tuple(sample.key)} has step rewards, but does not say where its tokens start in the text "
            "(Decisions.start_N): it was stored by an earlier version or made by hand; draw it again, or set start_N"
        )
    ends = np.asarray([end for end, _ in verdict.steps])
    span_N = np.searchsorted(ends, start_N, side="right").clip(max=len(ends) - 1)
    return span_N.astype(np.int64)


def _less(reward_S: Sequence[float], penalty_N: Array | None, span_N: NDArray[np.int64]) -> list[float]:
    """Each span's reward less the penalties at its decisions."""
    if penalty_N is None:
        return list(reward_S)
    taken_S = np.bincount(span_N, weights=penalty_N.astype(np.float64), minlength=len(reward_S))
    return [reward - float(taken) for reward, taken in zip(reward_S, taken_S, strict=True)]
