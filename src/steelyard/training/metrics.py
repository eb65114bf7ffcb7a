"""Figures of a step's groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from steelyard.types import Group, Sample

Metrics = dict[str, float | list[float]]


def group_metrics(groups: Sequence[Group]) -> Metrics:
    """Rewards, success, shares of verdicts, lengths and reward parts; a list of numbers becomes a histogram."""
    pairs = [pair for group in groups for pair in zip(group.samples, group.verdicts, strict=True)]
    verdicts = [verdict for _, verdict in pairs]
    counted = [verdict for verdict in verdicts if verdict.counts]
    rewards = np.asarray([verdict.reward for verdict in counted], np.float64)
    status = Counter(verdict.status for verdict in verdicts)
    total = max(len(verdicts), 1)
    metrics: Metrics = {f"share/{name}": status[name] / total for name in ("scored", "rejected", "unscored")}
    metrics |= {
        "groups/dead": sum(group.dead for group in groups) / max(len(groups), 1),
        "length/mean": float(np.mean([len(sample.completion_ids) for sample, _ in pairs])),
        "length/truncated": sum(sample.finish == "length" for sample, _ in pairs) / total,
        "samples": len(pairs),
    }
    if len(rewards):
        metrics |= {
            "reward/mean": float(rewards.mean()),
            "reward/std": float(rewards.std()),
            "reward/best": float(rewards.max()),
            "reward/histogram": rewards.tolist(),
            "success": sum(verdict.success for verdict in counted) / len(counted),
        }
    for name in sorted({name for verdict in counted for name in verdict.parts}):
        values = [float(verdict.parts[name]) for verdict in counted if name in verdict.parts]
        metrics[f"parts/{name}/mean"] = float(np.mean(values))
        metrics[f"parts/{name}/histogram"] = values
    accidents = Counter((verdict.status, verdict.cause) for verdict in verdicts if verdict.accident)
    return metrics | {f"{status}/{cause}": float(count) for (status, cause), count in sorted(accidents.items())}


def staleness_metrics(samples: Sequence[Sample], step: int) -> Metrics:
    """By how many versions the weights that are updated at ``step`` are newer than those that made the samples."""
    behind = [step - sample.policy_version for sample in samples]
    return {"staleness/mean": float(np.mean(behind)), "staleness/max": float(max(behind))}


def pool_metrics(counts: dict[str, float]) -> Metrics:
    """What happened in the pool, with the share of verdicts that came from the cache, if there is one."""
    asked = counts.get("cache/hits", 0.0) + counts.get("cache/misses", 0.0)
    return {**counts, "cache/hit_rate": counts["cache/hits"] / asked} if asked else {**counts}
