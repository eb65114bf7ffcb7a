"""Samples from a copy of the policy, so that the policy can be trained at the same time."""

from __future__ import annotations

import copy
from typing import Any

import torch

from steelyard.policies.causal import CausalPolicy
from steelyard.sampling.local import LocalSampler


class SnapshotSampler(LocalSampler):
    """Samples from its own copy of the weights, which only :meth:`publish` updates."""

    def __init__(self, policy: CausalPolicy, **settings: Any) -> None:
        super().__init__(copy.deepcopy(policy), **settings)
        self.trained_policy = policy

    @torch.no_grad()
    def publish(self, version: int) -> None:
        """Copy the trained weights. Call this while neither side is running. Frozen weights do not change, and the
        policy may have gained weights that the copy lacks, such as a reference adapter.
        """
        own = dict(self.policy.model.named_parameters())
        for name, new in self.trained_policy.trainable():
            own[name].copy_(new)
        super().publish(version)
