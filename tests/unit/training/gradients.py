"""Helpers to compare the gradients of learners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from steelyard.training.learner_samples import LearnerSample


def moved_away(items: Sequence[LearnerSample], seed: int = 1) -> list[LearnerSample]:
    """Add old and reference log-probs that differ from the current ones, so that ratios, clipping and KL are active."""
    rng = np.random.default_rng(seed)

    def perturbed(logp_N: np.ndarray, spread: float) -> np.ndarray:
        return (logp_N + spread * rng.normal(size=len(logp_N))).astype(np.float32)

    return [
        replace(
            item,
            old_logp_N=perturbed(item.sample.decisions.logp_N, 0.2),
            reference_logp_N=perturbed(item.sample.decisions.logp_N, 0.5),
        )
        for item in items
    ]


def largest_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def cosine(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    flat = [torch.cat([tensors[name].double().flatten() for name in one]) for tensors in (one, other)]
    return float(torch.nn.functional.cosine_similarity(*flat, dim=0))
