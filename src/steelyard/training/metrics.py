"""Metrics of the groups of a training step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, get_args

import numpy as np

from steelyard.environments.base import LIMITS
from steelyard.errors import ConfigError
from steelyard.suggest import did_you_mean
from steelyard.types import FinalStatus, GroupSummary, SampleSummary

Metrics = dict[str, float | list[float]]


def group_metrics(groups: Sequence[GroupSummary], replaced: Sequence[GroupSummary] = ()) -> Metrics:
    """Compute the metrics of a step's groups.

    Rewards, success, lengths and reward parts are computed over ``groups``, the groups to learn from. The shares of
    verdicts and failures and the metrics ``sampled/*`` also include the ``replaced`` groups. A list of numbers is
    logged as a histogram.
    """
    pairs = [pair for group in groups for pair in zip(group.samples, group.verdicts, strict=True)]
    counted = [verdict for _, verdict in pairs if verdict.has_reward]
    rewards = np.asarray([verdict.reward for verdict in counted], np.float64)
    metrics = _sampled_metrics([*groups, *replaced]) | {
        "groups/refilled": len(replaced),
        "length/mean": float(np.mean([sample.length for sample, _ in pairs])),
        "length/truncated": sum(sample.truncated for sample, _ in pairs) / max(len(pairs), 1),
    }
    metrics |= episode_metrics([sample for sample, _ in pairs])
    if len(rewards):
        metrics |= {
            "reward/mean": _mean(rewards),
            "reward/std": _std(rewards),
            "reward/best": float(rewards.max()),
            "reward/histogram": rewards.tolist(),
            "success": sum(verdict.success for verdict in counted) / len(counted),
        }
    for name in sorted({name for verdict in counted for name in verdict.parts}):
        values = [float(verdict.parts[name]) for verdict in counted if name in verdict.parts]
        metrics[f"parts/{name}/mean"] = _mean(values)
        metrics[f"parts/{name}/histogram"] = values
    return metrics


def episode_metrics(samples: Sequence[SampleSummary]) -> dict[str, float]:
    """Return the mean number of turns and the share of episodes ended by each limit; empty without episodes."""
    episodes = [sample for sample in samples if sample.turns]
    if not episodes:
        return {}
    ended = Counter(sample.finish for sample in episodes)
    shares = {f"episode/ended_by/{limit}": ended[limit] / len(episodes) for limit in LIMITS}
    return {"episode/turns": sum(sample.turns for sample in episodes) / len(episodes), **shares}


def _mean(values: Sequence[float] | np.ndarray) -> float:
    """Return the mean without a warning if it overflows to infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.mean(values))


def _std(values: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.std(values))


def _sampled_metrics(groups: Sequence[GroupSummary]) -> Metrics:
    """Compute metrics over all sampled groups, including those that were replaced."""
    verdicts = [verdict for group in groups for verdict in group.verdicts]
    counted = [verdict for verdict in verdicts if verdict.has_reward]
    status = Counter(verdict.status for verdict in verdicts)
    failures = Counter((verdict.status, verdict.cause) for verdict in verdicts if verdict.verifier_failed)
    metrics: Metrics = {
        "samples": len(verdicts),
        "floors/above_scored": len(floors_above_scored(groups)) / max(len(verdicts), 1),
    }
    metrics |= {f"share/{name}": status[name] / max(len(verdicts), 1) for name in get_args(FinalStatus)}
    metrics |= {f"{status}/{cause}": float(count) for (status, cause), count in sorted(failures.items())}
    if counted:
        metrics["sampled/reward"] = _mean([verdict.reward for verdict in counted])
        metrics["sampled/success"] = sum(verdict.success for verdict in counted) / len(counted)
    return metrics


class FloorAboveScored(NamedTuple):
    """A rejected sample whose declared floor exceeds the reward of a scored sample in its group."""

    task: str
    floor: float
    lowest: float
    """The lowest scored reward of the group."""

    def __str__(self) -> str:
        return (
            f"task {self.task}: a rejected sample got its declared floor of {self.floor:g}, more than the lowest "
            f"scored reward ({self.lowest:g}), so the policy can gain by being rejected. Declare a floor of at most "
            f"{self.lowest:g}, or none; the metric floors/above_scored counts such samples"
        )


def floors_above_scored(groups: Sequence[GroupSummary]) -> list[FloorAboveScored]:
    """Find all rejected samples with a declared floor above the lowest scored reward of their group."""
    violations: list[FloorAboveScored] = []
    for group in groups:
        lowest = min((verdict.reward for verdict in group.verdicts if verdict.status == "scored"), default=math.inf)
        floors = [verdict.reward for verdict in group.verdicts if verdict.status == "rejected"]
        violations += [FloorAboveScored(group.task.id, floor, lowest) for floor in floors if floor > lowest]
    return violations


def staleness_metrics(samples: Sequence[SampleSummary], step: int) -> Metrics:
    """Return the mean and maximum staleness: the number of updates between the weights of a sample and ``step``."""
    staleness = [step - sample.policy_version for sample in samples]
    return {"staleness/mean": float(np.mean(staleness)), "staleness/max": float(max(staleness))}


def pool_metrics(counts: dict[str, float]) -> Metrics:
    """Return the counters of the pool, with the cache hit rate if the cache was used."""
    lookups = counts.get("cache/hits", 0.0) + counts.get("cache/misses", 0.0)
    return {**counts, "cache/hit_rate": counts["cache/hits"] / lookups} if lookups else {**counts}


def require_logged(best_metric: str | None, logged: Metrics) -> None:
    """Raise an error if ``best_metric`` was never logged although samples were scored."""
    numbers = [name for name, value in logged.items() if isinstance(value, int | float)]
    if best_metric is None or best_metric in numbers or "reward/mean" not in numbers:
        return
    solution = "choose a metric from metrics.jsonl"
    if best_metric.startswith("eval/") and not any(name.startswith("eval/") for name in numbers):
        solution = "set evaluate.every and hold out tasks, or choose a training metric"
    raise ConfigError(
        f"checkpoint.best_metric = {best_metric!r} is not logged, so checkpoints cannot be ranked: {solution}"
        f"{did_you_mean(best_metric, numbers)}"
    )
