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
"""The number of a group, and one of its samples with the sample's verdict."""


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
    """Number of the sample; all rows of an episode have the same number."""


@dataclass(frozen=True, slots=True)
class Credit:
    """Converts rewards into advantages.

    Unscored samples, and truncated samples under ``mask``, are excluded from the statistics of their group and from the
    loss. A group with fewer than ``min_scored`` remaining samples is dropped. Step rewards are discounted span by span;
    a sample without step rewards is a single span. The spans of an episode without step rewards are its turns,
    regardless of the verdict: if spans depended on later events, the baselines would be biased. With ``per =
    "episode"``, an episode is a single span. A penalty for a decision (KL in the reward) is subtracted from the reward
    of its span.
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
        """Bind the facts that the estimator requests. The facts are the same for every span."""
        return with_facts(self.estimator, partial(_facts, groups, kept))

    def _rewards(self, kept: Sequence[Kept]) -> list[list[float]]:
        """Return the span rewards of each sample, with length and truncation penalties.

        A sample rejected without a declared floor gets at most the lowest return of the scored samples in its group.
        """
        shaping = self._shaping([sample for _, sample, _ in kept])
        rewards = [
            self._span_rewards(sample, verdict, shaping_T)
            for (_, sample, verdict), shaping_T in zip(kept, shaping, strict=True)
        ]
        lowest: dict[int, float] = {}
        for (number, _, verdict), reward_S in zip(kept, rewards, strict=True):
            if verdict.status == "scored":
                lowest[number] = min(lowest.get(number, math.inf), returns_to_go(reward_S, self.gamma)[0])
        return [
            _lowered(reward_S, lowest.get(number, math.inf), self.gamma) if verdict.open_floor else reward_S
            for (number, _, verdict), reward_S in zip(kept, rewards, strict=True)
        ]

    def _division(self, sample: Sample, verdict: Verdict) -> Literal["whole", "turns", "steps"]:
        """Return how a sample is divided into spans."""
        if sample.turns and self.per == "episode":
            return "whole"
        if verdict.steps:
            return "steps"
        return "turns" if sample.turns else "whole"

    def _span_rewards(self, sample: Sample, verdict: Verdict, shaping_T: Sequence[float]) -> list[float]:
        """Return the rewards of the spans, including the penalties of the turns.

        An episode without turn rewards gets its whole reward at the end. If the spans are not turns, penalties are
        added to the last span.
        """
        match self._division(sample, verdict):
            case "turns":
                reward_T = verdict.turn_rewards or [0.0] * (len(shaping_T) - 1) + [verdict.reward]
                return [reward + shaping for reward, shaping in zip(reward_T, shaping_T, strict=True)]
            case "steps":
                reward_S = [reward for _, reward in verdict.steps]
            case "whole":
                reward_S = [verdict.reward]
        return [*reward_S[:-1], reward_S[-1] + math.fsum(shaping_T)]

    def _spans_of_rows(self, sample: Sample, verdict: Verdict) -> list[NDArray[np.int64]]:
        """Return the span of each decision, row by row."""
        match self._division(sample, verdict):
            case "whole":
                return [np.zeros(len(row.decisions), np.int64) for row in sample.rows]
            case "steps":
                return [_step_of_decisions(row, verdict) for row in sample.rows]
            case "turns":
                return [_turn_of_decisions(row, number, sample) for number, row in enumerate(sample.rows)]

    def _shaping(self, samples: Sequence[Sample]) -> list[list[float]]:
        """Return the penalties of each sample by turn: for the length of each turn, and for truncation at the end."""
        truncation_M, _ = self._after_truncation(samples)
        lengths = [[turn.end - turn.start for turn in _written(s)] or [s.summary().length] for s in samples]
        penalty_T = torch.zeros(sum(map(len, lengths)), dtype=torch.float64)
        if (rule := self.length_penalty) is not None:
            length_T = torch.tensor([length for turns in lengths for length in turns])
            penalty_T = rule.weight * soft_length_penalty(length_T, max_length=rule.limit, buffer=rule.buffer)
        shaping = [part_T.tolist() for part_T in penalty_T.split([len(turns) for turns in lengths])]
        return [[*own[:-1], own[-1] + float(end)] for own, end in zip(shaping, truncation_M, strict=True)]

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


def _lowered(reward_S: Sequence[float], highest: float, gamma: float) -> list[float]:
    """Lower all returns-to-go by the same amount, so that the first one is at most ``highest``."""
    excess = max(0.0, returns_to_go(reward_S, gamma)[0] - highest)
    return [*(reward - (1 - gamma) * excess for reward in reward_S[:-1]), reward_S[-1] - excess]


def _written(sample: Sample) -> list[Turn]:
    """Return the turns of an episode that the policy wrote."""
    return [turn for turn in sample.turns if turn.role == "assistant"]


def _step_of_decisions(sample: Sample, verdict: Verdict) -> NDArray[np.int64]:
    """Return the step of each decision."""
    start_N = sample.decisions.text_start_N
    if start_N is None:
        raise TrainingError(
            f"sample {tuple(sample.key)} has step rewards but no Decisions.text_start_N (text offsets of decisions): "
            "it was stored by an earlier version or built by hand; sample it again, or set text_start_N"
        )
    ends = np.asarray([end for end, _ in verdict.steps])
    span_N = np.searchsorted(ends, start_N, side="right").clip(max=len(ends) - 1)
    return span_N.astype(np.int64)


def _turn_of_decisions(row: Sample, number: int, sample: Sample) -> NDArray[np.int64]:
    """Return the turn of each decision in a row, as an index into the policy's turns of the whole episode."""
    of_row = [(index, turn) for index, turn in enumerate(_written(sample)) if turn.row == number]
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
