"""Assess a verifier on a few samples before training."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard.types import Group, Verdict, settle_floors

MAX_UNSCORED_SHARE = 0.05
MAX_DEAD_SHARE = 0.8


@dataclass(frozen=True)
class CheckReport:
    """Speed, reward spread, dead groups, determinism and failures of a verifier on some samples."""

    groups: int
    items: int
    seconds_per_item: float
    scored: int
    rejected: int
    unscored: int
    reward_mean: float | None
    """Mean over scored and rejected samples; ``None`` if there are none."""
    reward_std: float | None
    """Standard deviation over the same samples, with n in the denominator."""
    reward_min: float | None
    reward_max: float | None
    success_share: float
    """Share of successes among scored and rejected samples."""
    dead_share: float
    """Share of groups in which all advantages are zero, so that they contribute nothing to training."""
    determinism: float | None
    """Share of items with equal verdicts when verified twice; ``None`` if they were verified once."""
    causes: Mapping[str, int]
    """Number of unscored verdicts by cause, and of rejections as ``rejected: <reason>``."""
    examples: Mapping[str, str]
    """Reason given for the first failure of each cause."""

    def concerns(self) -> tuple[str, ...]:
        """Return the problems to look at before training, the most serious first."""
        concerns: list[str] = []
        if self.unscored > MAX_UNSCORED_SHARE * self.items:
            worst = max((cause for cause in self.causes if cause in self.examples), key=lambda c: self.causes[c])
            concerns.append(f"{self.unscored} of {self.items} samples could not be scored, mostly because of {worst!r}")
        if self.reward_min is not None and self.reward_min == self.reward_max:
            concerns.append(f"every reward is {self.reward_min:g}, so nothing can be learnt: use a graded reward")
        elif self.dead_share > MAX_DEAD_SHARE:
            concerns.append(
                f"{self.dead_share:.0%} of the groups have no advantages, so learning will be slow: use a graded "
                "reward, choose tasks of medium difficulty, or enlarge the group"
            )
        if self.determinism is not None and self.determinism < 1:
            concerns.append(f"only {self.determinism:.0%} of the verdicts were the same twice: the reward is noisy")
        return tuple(concerns)


def summarise_check(
    groups: Sequence[Group], second_verdicts: Sequence[Sequence[Verdict]], seconds: float, *, dead: int
) -> CheckReport:
    """Summarise a check of ``groups``, which took ``seconds`` to verify; ``dead`` of them have no advantages.

    ``second_verdicts`` are the verdicts of a second verification of the same samples, group by group; may be empty.
    """
    verdicts = [verdict for group in groups for verdict in group.verdicts]
    if not verdicts:
        raise ValueError("no verdicts: a check needs at least one sample")
    counted = [verdict for verdict in verdicts if verdict.has_reward]
    rewards = [verdict.reward for verdict in counted]
    status = Counter(verdict.status for verdict in verdicts)
    causes, examples = _failures(verdicts)
    return CheckReport(
        groups=len(groups),
        items=len(verdicts),
        seconds_per_item=seconds / len(verdicts),
        scored=status["scored"],
        rejected=status["rejected"],
        unscored=status["unscored"],
        reward_mean=statistics.fmean(rewards) if rewards else None,
        reward_std=statistics.pstdev(rewards) if rewards else None,
        reward_min=min(rewards, default=None),
        reward_max=max(rewards, default=None),
        success_share=sum(verdict.success for verdict in counted) / len(counted) if counted else 0.0,
        dead_share=dead / len(groups),
        determinism=_agreement(groups, second_verdicts) if second_verdicts else None,
        causes=causes,
        examples=examples,
    )


def _failures(verdicts: Sequence[Verdict]) -> tuple[dict[str, int], dict[str, str]]:
    causes: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for verdict in verdicts:
        if verdict.status == "unscored":
            causes[verdict.cause] += 1
            examples.setdefault(verdict.cause, verdict.reason)
        elif verdict.status == "rejected":
            causes[f"rejected: {verdict.reason}"] += 1
    return dict(causes.most_common()), examples


def _agreement(groups: Sequence[Group], second: Sequence[Sequence[Verdict]]) -> float:
    pairs = [
        (_content(one), _content(two))
        for group, verdicts in zip(groups, second, strict=True)
        for one, two in zip(group.verdicts, settle_floors(verdicts), strict=True)
    ]
    return sum(one == two for one, two in pairs) / len(pairs)


def _content(verdict: Verdict) -> tuple[object, ...]:
    """Return the parts of a verdict that affect training; reasons and the number of tries do not."""
    return verdict.status, verdict.reward, verdict.success, dict(verdict.parts), verdict.steps, verdict.cause
