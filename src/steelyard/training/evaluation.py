"""Evaluation on held-out tasks: mean and best reward, success rate and unbiased pass@k with confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from steelyard import defaults
from steelyard.algorithms.passk import Interval, bootstrap_interval, pass_at_k_estimate, wilson_interval
from steelyard.domains.base import SPLIT_NAMES, Split
from steelyard.sampling.base import Decoding, Sampler
from steelyard.text import with_unit
from steelyard.tracking import Activity, Report, silent
from steelyard.training.metrics import episode_metrics
from steelyard.training.phases import Stopwatch, collect, requests_for
from steelyard.types import Group, Task, Verdict, settle_floors
from steelyard.verification import Pool

EVALUATION_STEP = -1
"""Step number in the random key of evaluations. All evaluations use the same random numbers, so their
results differ only because the policy differs."""


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """The results of an evaluation. Unscored samples count only in ``unscored``, the share of such samples."""

    reward: Interval
    best: Interval
    """Mean over tasks of the highest reward among the samples of a task."""
    success: Interval
    pass_at: dict[int, Interval]
    parts: dict[str, float]
    """Mean over tasks of each reward part."""
    distinct: float
    """Number of distinct texts divided by the number of samples."""
    unscored: float
    groups: tuple[Group, ...]
    episodes: Mapping[str, float] = field(default_factory=dict[str, float])
    """Mean turns per episode and the share of episodes that each limit ended, as in the metrics of a step; empty if the
    samples are not episodes."""
    split: Split | None = None
    """The split that the tasks come from, if known."""

    def __repr__(self) -> str:
        shown = {"reward": self.reward, "best": self.best, "success": self.success}
        shown |= {f"pass@{k}": estimate for k, estimate in self.pass_at.items()}
        values = [f"{name} {value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]" for name, value in shown.items()]
        shares = f"{self.distinct:.0%} distinct, {self.unscored:.0%} unscored"
        if self.episodes:
            shares += f", {self.episodes['episode/turns']:.3g} turns per episode"
        kind = "task" if self.split is None else f"{SPLIT_NAMES[self.split]} task"
        return f"Evaluation({with_unit(len(self.groups), kind)}: {', '.join(values)}, {shares})"

    def metrics(self) -> dict[str, float]:
        """Return the means as metrics named ``eval/*``."""
        plain = {"eval/reward": self.reward.mean, "eval/best": self.best.mean, "eval/success": self.success.mean}
        by_k = {f"eval/pass@{k}": estimate.mean for k, estimate in self.pass_at.items()}
        parts = {f"eval/parts/{name}": mean for name, mean in self.parts.items()}
        episodes = {f"eval/{name}": value for name, value in self.episodes.items()}
        return plain | by_k | parts | episodes | {"eval/distinct": self.distinct, "eval/unscored": self.unscored}


class Evaluator:
    """Samples and verifies a fixed set of tasks."""

    def __init__(
        self,
        sampler: Sampler,
        pool: Pool,
        tasks: Sequence[Task],
        decoding: Decoding,
        *,
        samples: int = defaults.EVALUATION_SAMPLES,
        ks: Sequence[int] = defaults.EVALUATION_KS,
    ) -> None:
        self.sampler, self.pool, self.tasks, self.decoding = sampler, pool, list(tasks), decoding
        self.samples, self.ks = samples, [k for k in ks if k <= samples]

    def run(self, report: Report = silent) -> Evaluation:
        """Sample and verify all tasks; ``report`` receives progress."""

        def within(activity: Activity) -> None:
            report(replace(activity, phase=f"evaluate/{activity.phase}"))

        requests = requests_for(self.tasks, EVALUATION_STEP, self.samples)
        groups = collect(self.sampler, self.pool, requests, self.decoding, Stopwatch(report=within))
        return summarise(groups, self.ks)


def summarise(groups: Sequence[Group], ks: Sequence[int]) -> Evaluation:
    """Compute the results of an evaluation. Every task has the same weight.

    A sample rejected without a declared floor gets the lowest scored reward of the whole evaluation. A floor per task
    would not suffice: a task may have a single sample, and a rejected sample must not raise the mean.
    """
    groups = _with_common_floor(groups)
    counted = [[verdict for verdict in group.verdicts if verdict.has_reward] for group in groups]
    scored = [verdicts for verdicts in counted if verdicts]
    texts = [sample.text for group in groups for sample in group.samples]
    total = max(len(texts), 1)
    return Evaluation(
        reward=_estimate([np.mean([v.reward for v in verdicts]) for verdicts in scored], bootstrap_interval),
        best=_estimate([max(v.reward for v in verdicts) for verdicts in scored], bootstrap_interval),
        success=_estimate([np.mean([v.success for v in verdicts]) for verdicts in scored], wilson_interval),
        pass_at={k: pass_at_interval(scored, k) for k in ks},
        parts=_parts(scored),
        distinct=len(set(texts)) / total,
        unscored=1 - sum(len(verdicts) for verdicts in counted) / total,
        groups=tuple(groups),
        episodes=episode_metrics([sample.summary() for group in groups for sample in group.samples]),
    )


def _with_common_floor(groups: Sequence[Group]) -> list[Group]:
    verdicts = iter(settle_floors([verdict for group in groups for verdict in group.verdicts]))
    return [replace(group, verdicts=tuple(islice(verdicts, len(group.verdicts)))) for group in groups]


def _parts(scored: Sequence[Sequence[Verdict]]) -> dict[str, float]:
    """Return the mean of each reward part over the tasks that have it."""
    by_task: dict[str, list[np.floating]] = {}
    for verdicts in scored:
        for name in {name for verdict in verdicts for name in verdict.parts}:
            values = [float(verdict.parts[name]) for verdict in verdicts if name in verdict.parts]
            by_task.setdefault(name, []).append(np.mean(values))
    return {name: float(np.mean(by_task[name])) for name in sorted(by_task)}


def pass_at_interval(scored: Sequence[Sequence[Verdict]], k: int) -> Interval:
    """Return pass@k with its interval, over the tasks with at least k scored or rejected samples."""
    values = [
        pass_at_k_estimate(len(verdicts), sum(v.success for v in verdicts), k)
        for verdicts in scored
        if len(verdicts) >= k
    ]
    return _estimate(values, wilson_interval)


def _estimate(
    values: Sequence[float] | Sequence[np.floating], interval: Callable[[Sequence[float]], Interval]
) -> Interval:
    if not values:
        return Interval(float("nan"), float("nan"), float("nan"))
    return interval([float(value) for value in values])
