"""What a few judged samples tell of a verifier before anyone trains on it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard.types import Group, Verdict, settle_floors

MUCH_UNSCORED = 0.05
MANY_DEAD = 0.8


@dataclass(frozen=True)
class CheckReport:
    """Time, reward spread, dead groups, determinism and failures of a verifier on some samples."""

    groups: int
    items: int
    seconds_per_item: float
    scored: int
    rejected: int
    unscored: int
    reward_mean: float | None
    """Over scored and rejected samples; ``None`` if there are none."""
    reward_std: float | None
    """Over all of them, with n in the denominator."""
    reward_min: float | None
    reward_max: float | None
    success_share: float
    """Of the samples that were judged."""
    dead_share: float
    """Share of groups in which no advantage differs from zero: nothing is learnt from those."""
    determinism: float | None
    """Share of items with the same verdict when verified twice; ``None`` if they were verified once."""
    causes: Mapping[str, int]
    """How often each cause of an unscored verdict came up, and ``rejected: <reason>`` for rejections."""
    examples: Mapping[str, str]
    """For each cause the reason of its first case."""

    def concerns(self) -> tuple[str, ...]:
        """What to look at before training, the gravest first; empty if nothing stands out."""
        found: list[str] = []
        if self.unscored > MUCH_UNSCORED * self.items:
            worst = max((cause for cause in self.causes if cause in self.examples), key=lambda c: self.causes[c])
            found.append(f"{self.unscored} of {self.items} samples could not be scored, mostly by {worst!r}")
        if self.reward_min is not None and self.reward_min == self.reward_max:
            found.append(f"every reward is {self.reward_min:g}: there is nothing to learn from; grade the reward")
        elif self.dead_share > MANY_DEAD:
            found.append(
                f"{self.dead_share:.0%} of the groups give no sample an advantage: learning will be slow; "
                f"grade the reward, choose tasks of middling difficulty, or enlarge the group"
            )
        if self.determinism is not None and self.determinism < 1:
            found.append(f"only {self.determinism:.0%} of the verdicts were the same twice: the reward is noisy")
        return tuple(found)


def summarise_check(
    groups: Sequence[Group], second_verdicts: Sequence[Sequence[Verdict]], seconds: float, *, dead: int
) -> CheckReport:
    """A report on ``groups``, judged within ``seconds``, of which ``dead`` give no advantage; ``second_verdicts`` (may
    be empty) are those of a second verification of the same samples, group by group.
    """
    verdicts = [verdict for group in groups for verdict in group.verdicts]
    if not verdicts:
        raise ValueError("nothing was judged: a check needs at least one sample")
    judged = [verdict for verdict in verdicts if verdict.counts]
    rewards = [verdict.reward for verdict in judged]
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
        success_share=sum(verdict.success for verdict in judged) / len(judged) if judged else 0.0,
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
    """What of a verdict is learnt from; the wording of reasons and the number of tries are not."""
    return verdict.status, verdict.reward, verdict.success, dict(verdict.parts), verdict.steps, verdict.cause
