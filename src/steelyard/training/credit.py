"""Credit assignment: from groups of verified samples to one advantage per decision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from steelyard import defaults
from steelyard.algorithms.advantages import Estimator, group_norm
from steelyard.algorithms.facts import RewardEstimator, RewardParts, SampleFacts, with_facts
from steelyard.algorithms.returns import returns_to_go, span_advantages
from steelyard.algorithms.shaping import Truncation, clip_advantages, handle_truncated, soft_length_penalty
from steelyard.errors import TrainingError
from steelyard.types import Group, Sample, Turn, Verdict

Array = NDArray[np.floating]
NO_ADVANTAGE = 1e-9
"""Advantages up to this magnitude are rounding errors and do not change any weights."""
Kept = tuple[int, Sample, Verdict]
"""The number of the group, and a sample that is compared with its group."""


@dataclass(frozen=True, slots=True)
class LengthPenalty:
    """Soft penalty on long samples: 0 up to ``limit - buffer`` tokens, then linear to ``-weight`` at ``limit``."""

    limit: int
    buffer: int
    weight: float = defaults.LENGTH_PENALTY_WEIGHT


@dataclass(frozen=True, slots=True, eq=False)
class CreditedSample:
    """A row of a sample with the advantage of each of its decisions. Most samples are a single row."""

    sample: Sample
    advantage_N: Array
    number: int = 0
    """Counts samples: the rows of an episode share it."""


@dataclass(frozen=True, slots=True)
class Credit:
    """Converts rewards into advantages.

    Unscored samples, and truncated samples under ``mask``, are excluded from the statistics of their group and from the
    loss. A group with fewer than ``min_scored`` remaining samples is dropped. Step rewards are discounted span by span;
    a sample without step rewards is a single span. The turns of an episode with turn rewards are its spans, unless
    ``per`` is ``episode``. A penalty at a decision (KL in the reward) is subtracted from the reward of its span.
    """

    estimator: Estimator = group_norm
    gamma: float = defaults.GAMMA
    clip: float | None = None
    truncated: Truncation = defaults.TRUNCATED
    truncation_penalty: float = defaults.TRUNCATION_PENALTY
    length_penalty: LengthPenalty | None = None
    min_scored: int = defaults.MIN_SCORED
    per: Literal["turn", "episode"] = defaults.CREDIT_PER

    def assign(
        self,
        groups: Sequence[Group],
        *,
        penalties: Callable[[Sample], Array | None] | None = None,
    ) -> list[CreditedSample]:
        """Return the advantages of all samples to learn from, in (slot, sample) order.

        ``penalties`` returns the penalty at each decision of a sample, which is subtracted from the reward.
        """
        kept = [(number, *pair) for number, group in enumerate(groups) for pair in self.kept(group)]
        if not kept:
            return []
        spans = [self._spans_of_rows(sample, verdict) for _, sample, verdict in kept]
        rewards = self._rewards(kept)
        if penalties is not None:
            rewards = [
                _subtract_penalties(reward_S, _over_rows(penalties, sample), np.concatenate(span_rows))
                for reward_S, span_rows, (_, sample, _) in zip(rewards, spans, kept, strict=True)
            ]
        group_M = torch.tensor([number for number, _, _ in kept])
        advantages = span_advantages(rewards, group_M, self._estimator(groups, kept), self.gamma)
        clipped = [clip_advantages(advantage_S, self.clip).numpy() for advantage_S in advantages]
        return [
            CreditedSample(row, advantage_S[span_N].astype(np.float32), number)
            for number, ((_, sample, _), span_rows, advantage_S) in enumerate(zip(kept, spans, clipped, strict=True))
            for row, span_N in zip(sample.rows, span_rows, strict=True)
        ]

    def dead(self, group: Group) -> bool:
        """Return whether a group is dead: all its advantages are zero, ignoring KL in the reward.

        The estimator receives only this group, so the answer does not depend on the rest of the batch.
        """
        kept = [(0, *pair) for pair in self.kept(group)]
        if not kept:
            return True
        group_M = torch.zeros(len(kept), dtype=torch.int64)
        advantages = span_advantages(self._rewards(kept), group_M, self._estimator([group], kept), self.gamma)
        return not any(bool((advantage_S.abs() > NO_ADVANTAGE).any()) for advantage_S in advantages)

    def kept(self, group: Group) -> list[tuple[Sample, Verdict]]:
        """Return the samples of a group that are compared with each other and used for learning."""
        pairs = [pair for pair in zip(group.samples, group.verdicts, strict=True) if pair[1].has_reward]
        _, keep_M = self._after_truncation([sample for sample, _ in pairs])
        pairs = [pair for pair, keep in zip(pairs, keep_M.tolist(), strict=True) if keep]
        return pairs if len(pairs) >= self.min_scored else []

    def _estimator(self, groups: Sequence[Group], kept: Sequence[Kept]) -> RewardEstimator:
        """Bind the facts that the estimator requests. They are the same for every span."""
        return with_facts(self.estimator, partial(_facts, groups, kept))

    def _rewards(self, kept: Sequence[Kept]) -> list[list[float]]:
        """Return the span rewards of each sample. Length and truncation penalties go to the last span.

        A sample rejected without a declared floor gets at most the lowest return of the scored samples in its group.
        """
        shaping_M = self._shaping([sample for _, sample, _ in kept])
        rewards = [
            _shaped(self._span_rewards(verdict), float(shaping))
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

    def _span_rewards(self, verdict: Verdict) -> list[float]:
        """Return the rewards of the spans; a sample without step or turn rewards is a single span."""
        if self.per == "episode" and verdict.turn_rewards:
            return [verdict.reward]
        return [reward for _, reward in verdict.steps] or list(verdict.turn_rewards) or [verdict.reward]

    def _spans_of_rows(self, sample: Sample, verdict: Verdict) -> list[NDArray[np.int64]]:
        """Return the span of each decision, row by row."""
        if verdict.turn_rewards and self.per == "turn":
            return [_turn_of_decisions(row, number, sample.turns) for number, row in enumerate(sample.rows)]
        return [_span_of_decisions(row, verdict) for row in sample.rows]

    def _shaping(self, samples: Sequence[Sample]) -> torch.Tensor:
        """Return the length and truncation penalties of each sample, to be added to its reward."""
        shaping_M, _ = self._after_truncation(samples)
        if (rule := self.length_penalty) is not None:
            length_M = torch.tensor([sample.summary().length for sample in samples])
            shaping_M = shaping_M + rule.weight * soft_length_penalty(
                length_M, max_length=rule.limit, buffer=rule.buffer
            )
        return shaping_M

    def _after_truncation(self, samples: Sequence[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the truncation penalty of each sample, and which samples to keep."""
        truncated_M = torch.tensor([sample.truncated for sample in samples], dtype=torch.bool)
        unshaped_M = torch.zeros(len(samples), dtype=torch.float64)
        return handle_truncated(unshaped_M, truncated_M, self.truncated, self.truncation_penalty)


def _facts(groups: Sequence[Group], kept: Sequence[Kept]) -> SampleFacts:
    samples = [sample for _, sample, _ in kept]
    return SampleFacts(
        parts=RewardParts([verdict.parts for _, _, verdict in kept]),
        lengths=torch.tensor([sample.summary().length for sample in samples]),
        decisions=torch.tensor([sum(len(row.decisions) for row in sample.rows) for sample in samples]),
        truncated=torch.tensor([sample.truncated for sample in samples]),
        tasks=tuple(groups[number].task for number, _, _ in kept),
    )


def _shaped(reward_S: Sequence[float], shaping: float) -> list[float]:
    return [*reward_S[:-1], reward_S[-1] + shaping]


def _span_of_decisions(sample: Sample, verdict: Verdict) -> NDArray[np.int64]:
    """Return the span of each decision."""
    if not verdict.steps:
        return np.zeros(len(sample.decisions), np.int64)
    start_N = sample.decisions.text_start_N
    if start_N is None:
        raise TrainingError(
            f"sample {tuple(sample.key)} has step rewards but no Decisions.text_start_N (text offsets of decisions): "
            "it was stored by an earlier version or built by hand; sample it again, or set text_start_N"
        )
    ends = np.asarray([end for end, _ in verdict.steps])
    span_N = np.searchsorted(ends, start_N, side="right").clip(max=len(ends) - 1)
    return span_N.astype(np.int64)


def _turn_of_decisions(row: Sample, number: int, turns: Sequence[Turn]) -> NDArray[np.int64]:
    """Return the turn of each decision, counted over the policy's turns of the whole episode."""
    written = [turn for turn in turns if turn.role == "assistant"]
    of_row = [(index, turn) for index, turn in enumerate(written) if turn.row == number]
    starts = np.asarray([turn.start for _, turn in of_row])
    indices = np.asarray([index for index, _ in of_row])
    return indices[np.searchsorted(starts, row.decisions.position_N, side="right") - 1].astype(np.int64)


def _over_rows(penalties: Callable[[Sample], Array | None], sample: Sample) -> Array | None:
    """Return the penalties at the decisions of all rows."""
    rows = [penalties(row) for row in sample.rows]
    given = [penalty_N for penalty_N in rows if penalty_N is not None]
    return np.concatenate(given) if given else None


def _subtract_penalties(reward_S: Sequence[float], penalty_N: Array | None, span_N: NDArray[np.int64]) -> list[float]:
    """Subtract the penalties of each span's decisions from the reward of the span."""
    if penalty_N is None:
        return list(reward_S)
    penalty_S = np.bincount(span_N, weights=penalty_N.astype(np.float64), minlength=len(reward_S))
    return [reward - float(penalty) for reward, penalty in zip(reward_S, penalty_S, strict=True)]
