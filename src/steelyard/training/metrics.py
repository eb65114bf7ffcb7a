"""Figures of a step's groups."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, get_args

import numpy as np

from steelyard.errors import ConfigError
from steelyard.suggest import did_you_mean
from steelyard.types import GroupSummary, SampleSummary, VerdictStatus

Metrics = dict[str, float | list[float]]


def group_metrics(groups: Sequence[GroupSummary], replaced: Sequence[GroupSummary] = ()) -> Metrics:
    """Rewards, success, lengths and reward parts of the groups that are learnt from; shares of verdicts and accidents
    of all that were sampled, those that a refill has replaced included, and their reward and success as ``sampled/*``.
    A list of numbers becomes a histogram.
    """
    pairs = [pair for group in groups for pair in zip(group.samples, group.verdicts, strict=True)]
    counted = [verdict for _, verdict in pairs if verdict.counts]
    rewards = np.asarray([verdict.reward for verdict in counted], np.float64)
    metrics = _sampled_metrics([*groups, *replaced]) | {
        "groups/refilled": len(replaced),
        "length/mean": float(np.mean([sample.length for sample, _ in pairs])),
        "length/truncated": sum(sample.truncated for sample, _ in pairs) / max(len(pairs), 1),
    }
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


def _mean(values: Sequence[float] | np.ndarray) -> float:
    """Infinite, and no warning, where the sum is beyond the largest float."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.mean(values))


def _std(values: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.std(values))


def _sampled_metrics(groups: Sequence[GroupSummary]) -> Metrics:
    """What the policy made and the checker said of it, before anything was picked."""
    verdicts = [verdict for group in groups for verdict in group.verdicts]
    counted = [verdict for verdict in verdicts if verdict.counts]
    status = Counter(verdict.status for verdict in verdicts)
    accidents = Counter((verdict.status, verdict.cause) for verdict in verdicts if verdict.accident)
    metrics: Metrics = {
        "samples": len(verdicts),
        "floors/above_scored": len(floors_above_scored(groups)) / max(len(verdicts), 1),
    }
    metrics |= {f"share/{name}": status[name] / max(len(verdicts), 1) for name in get_args(VerdictStatus)}
    metrics |= {f"{status}/{cause}": float(count) for (status, cause), count in sorted(accidents.items())}
    if counted:
        metrics["sampled/reward"] = _mean([verdict.reward for verdict in counted])
        metrics["sampled/success"] = sum(verdict.success for verdict in counted) / len(counted)
    return metrics


class FloorAboveScored(NamedTuple):
    """A rejected sample whose declared floor is more than a scored sample of its group got."""

    task: str
    floor: float
    lowest: float
    """The lowest scored reward of the group."""

    def __str__(self) -> str:
        return (
            f"a rejected sample got its declared floor of {self.floor:g}, above the {self.lowest:g} of a scored one "
            f"(task {self.task}): the policy can gain by being rejected. Declare a floor of at most {self.lowest:g} "
            f"or none; the metric floors/above_scored counts such samples"
        )


def floors_above_scored(groups: Sequence[GroupSummary]) -> list[FloorAboveScored]:
    """All such samples; a rejected one without a declared floor is never among them."""
    found: list[FloorAboveScored] = []
    for group in groups:
        lowest = min((verdict.reward for verdict in group.verdicts if verdict.status == "scored"), default=math.inf)
        floors = [verdict.reward for verdict in group.verdicts if verdict.status == "rejected"]
        found += [FloorAboveScored(group.task.id, floor, lowest) for floor in floors if floor > lowest]
    return found


def staleness_metrics(samples: Sequence[SampleSummary], step: int) -> Metrics:
    """By how many versions the weights that are updated at ``step`` are newer than those that made the samples."""
    behind = [step - sample.policy_version for sample in samples]
    return {"staleness/mean": float(np.mean(behind)), "staleness/max": float(max(behind))}


def pool_metrics(counts: dict[str, float]) -> Metrics:
    """What happened in the pool, with the share of verdicts that came from the cache, if there is one."""
    asked = counts.get("cache/hits", 0.0) + counts.get("cache/misses", 0.0)
    return {**counts, "cache/hit_rate": counts["cache/hits"] / asked} if asked else {**counts}


def require_measured(best_metric: str | None, known: Metrics) -> None:
    """Refuse to rank checkpoints by what has not once been measured, as soon as anything was scored."""
    numbers = [name for name, value in known.items() if isinstance(value, int | float)]
    if best_metric is None or best_metric in numbers or "reward/mean" not in numbers:
        return
    way_out = "choose a number that metrics.jsonl has"
    if best_metric.startswith("eval/") and not any(name.startswith("eval/") for name in numbers):
        way_out = "set evaluate.every and hold out tasks, or choose a metric of training"
    raise ConfigError(
        f"checkpoint.best_metric = {best_metric!r} is not measured, so no checkpoint would be the best: {way_out}"
        f"{did_you_mean(best_metric, numbers)}"
    )
