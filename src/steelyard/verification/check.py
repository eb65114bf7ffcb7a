"""Assess a verifier on a few samples before training."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from steelyard.types import FinishReason, Group, Verdict, settle_floors

MAX_UNSCORED_SHARE = 0.05
MAX_DEAD_SHARE = 0.8
MAX_CUT_SHARE = 0.5
LIMIT_KEYS: Mapping[FinishReason, str] = MappingProxyType(
    {"turns": "episode.max_turns", "length": "sampling.max_new_tokens", "episode_length": "episode.max_tokens"}
)
"""Keys that set the limits of episodes."""


@dataclass(frozen=True)
class EpisodeReport:
    """Statistics on turns, limits and replies in episodes played with an environment."""

    turns: tuple[int, ...]
    """Number of policy turns in each episode."""
    finishes: Mapping[FinishReason, int]
    """Number of episodes by finish reason, without those in which the environment failed."""
    failed: int
    answers: int
    """Number of replies and verdicts from the environment."""
    seconds_per_answer: float
    same: float
    """Share of episodes that got the same replies and verdict when their turns were sent to the environment again."""

    def concerns(self) -> Iterator[str]:
        """Yield the problems to look at before training."""
        episodes = len(self.turns)
        if self.finishes.get("turns") == episodes:
            yield (
                "every episode ended at episode.max_turns: raise it, or end episodes in the environment by returning a "
                "number, a bool or a Verdict"
            )
        elif max(self.turns) < 2 and not self.failed:
            yield "no episode has a second turn: to continue an episode, the environment returns a text or a Reply"
        for limit in ("length", "episode_length"):
            if (count := self.finishes.get(limit, 0)) > MAX_CUT_SHARE * episodes:
                yield f"{count} of {episodes} episodes ended at {LIMIT_KEYS[limit]}: raise it, or constrain the turns"
        if self.same < 1:
            yield (
                f"only {self.same:.0%} of the episodes got the same replies and verdict twice: a pure environment must "
                "depend on the task and the turns alone, a session also on the seed given to open"
            )


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
    episodes: EpisodeReport | None = None
    """Set if the verifier is an environment."""

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
        if self.episodes is not None:
            concerns += self.episodes.concerns()
        elif self.determinism is not None and self.determinism < 1:
            concerns.append(f"only {self.determinism:.0%} of the verdicts were the same twice: the reward is noisy")
        return tuple(concerns)


def summarise_check(
    groups: Sequence[Group],
    second_verdicts: Sequence[Sequence[Verdict]],
    seconds: float,
    *,
    dead: int,
    episodes: EpisodeReport | None = None,
) -> CheckReport:
    """Summarise a check of ``groups``, which took ``seconds`` to verify; ``dead`` of them have no advantages.

    ``second_verdicts`` are the verdicts of a second verification of the same samples, group by group; may be empty.
    ``episodes``: the report on episodes, if the verifier is an environment.
    """
    verdicts = [verdict for group in groups for verdict in group.verdicts]
    if not verdicts:
        raise ValueError("there are no verdicts to check; pass at least one sample")
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
        episodes=episodes,
    )


def summarise_episodes(groups: Sequence[Group], *, answers: int, seconds: float, same: float) -> EpisodeReport:
    """Summarise episodes; their environment took ``seconds`` seconds to give ``answers`` answers."""
    pairs = [(s.summary(), v) for group in groups for s, v in zip(group.samples, group.verdicts, strict=True)]
    finishes: Counter[FinishReason] = Counter(s.finish for s, verdict in pairs if verdict.status != "unscored")
    return EpisodeReport(
        turns=tuple(summary.turns for summary, _ in pairs),
        finishes=dict(finishes),
        failed=len(pairs) - finishes.total(),
        answers=answers,
        seconds_per_answer=seconds / answers,
        same=same,
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
        (content(one), content(two))
        for group, verdicts in zip(groups, second, strict=True)
        for one, two in zip(group.verdicts, settle_floors(verdicts), strict=True)
    ]
    return sum(one == two for one, two in pairs) / len(pairs)


def content(verdict: Verdict) -> tuple[object, ...]:
    """Return the parts of a verdict that affect training; reasons and the number of tries do not."""
    plain = verdict.status, verdict.reward, verdict.success, dict(verdict.parts), verdict.steps, verdict.cause
    return *plain, verdict.turn_rewards, verdict.reply
