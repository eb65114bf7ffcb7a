"""Credit: groups of judged samples to one advantage per decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from steelyard.algorithms.advantages import Estimator, group_norm
from steelyard.algorithms.returns import span_advantages
from steelyard.algorithms.shaping import Truncation, advantage_clip, handle_truncated, soft_length_penalty
from steelyard.types import Group, Sample, Verdict

Array = NDArray[np.floating]
TokenStarts = Callable[[Sample], np.ndarray]
"""Offset in the sample's text at which the token of each decision starts."""


@dataclass(frozen=True, slots=True)
class LengthPenalty:
    """Soft penalty on long samples: 0 up to ``limit - buffer`` tokens, then falling to ``-weight`` at ``limit``."""

    limit: int
    buffer: int
    weight: float = 1.0


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
    gamma: float = 1.0
    clip: float | None = None
    truncated: Truncation = "count"
    truncation_penalty: float = 0.0
    length_penalty: LengthPenalty | None = None
    min_scored: int = 2

    def assign(
        self,
        groups: Sequence[Group],
        token_starts: TokenStarts,
        *,
        penalties: Callable[[Sample], Array | None] | None = None,
    ) -> list[Credited]:
        """Advantages of all samples that are learnt from, in (slot, sample) order.

        ``penalties`` gives what is subtracted from the reward at each decision of a sample.
        """
        kept = [(number, *pair) for number, group in enumerate(groups) for pair in self.kept(group)]
        if not kept:
            return []
        spans = [_Spans.of(sample, verdict, token_starts) for _, sample, verdict in kept]
        shaping_M = self._shaping([sample for _, sample, _ in kept])
        rewards = [
            span.rewards(float(shaping), penalties(sample) if penalties else None)
            for span, shaping, (_, sample, _) in zip(spans, shaping_M, kept, strict=True)
        ]
        group_M = torch.tensor([number for number, _, _ in kept])
        advantages = span_advantages(rewards, group_M, self.estimator, self.gamma)
        return [
            Credited(sample, advantage_clip(advantage_S, self.clip).numpy()[span.span_N].astype(np.float32))
            for (_, sample, _), span, advantage_S in zip(kept, spans, advantages, strict=True)
        ]

    def kept(self, group: Group) -> list[tuple[Sample, Verdict]]:
        """The samples of a group that are compared with each other."""
        pairs = [
            (sample, verdict)
            for sample, verdict in zip(group.samples, group.verdicts, strict=True)
            if verdict.counts and not (self.truncated == "mask" and sample.finish == "length")
        ]
        return pairs if len(pairs) >= self.min_scored else []

    def _shaping(self, samples: Sequence[Sample]) -> torch.Tensor:
        """What length and truncation add to the reward of each sample."""
        truncated_M = torch.tensor([sample.finish == "length" for sample in samples])
        shaping_M = torch.zeros(len(samples), dtype=torch.float64)
        shaping_M, _ = handle_truncated(shaping_M, truncated_M, self.truncated, self.truncation_penalty)
        if (rule := self.length_penalty) is not None:
            length_M = torch.tensor([len(sample.completion_ids) for sample in samples])
            shaping_M = shaping_M + rule.weight * soft_length_penalty(
                length_M, max_length=rule.limit, buffer=rule.buffer
            )
        return shaping_M


@dataclass(frozen=True, slots=True, eq=False)
class _Spans:
    """A sample's division into rewarded spans and the span of each decision."""

    reward_S: tuple[float, ...]
    span_N: NDArray[np.int64]

    @staticmethod
    def of(sample: Sample, verdict: Verdict, token_starts: TokenStarts) -> _Spans:
        if not verdict.steps:
            return _Spans((verdict.reward,), np.zeros(len(sample.decisions), np.int64))
        ends = np.asarray([end for end, _ in verdict.steps])
        span_N = np.searchsorted(ends, token_starts(sample), side="right").clip(max=len(ends) - 1)
        return _Spans(tuple(reward for _, reward in verdict.steps), span_N.astype(np.int64))

    def rewards(self, shaping: float, penalty_N: Array | None) -> list[float]:
        rewards = list(self.reward_S)
        rewards[-1] += shaping
        if penalty_N is not None:
            taken_S = np.bincount(self.span_N, weights=penalty_N.astype(np.float64), minlength=len(rewards))
            rewards = [reward - float(taken) for reward, taken in zip(rewards, taken_S, strict=True)]
        return rewards
