"""Sampling from a twin of the policy, so that the policy can learn meanwhile."""

from __future__ import annotations

import copy
from typing import Any

import torch

from steelyard.policies.causal import CausalPolicy
from steelyard.sampling.local import LocalSampler


class TwinSampler(LocalSampler):
    """Has weights of its own, renewed by :meth:`publish` and by nothing else."""

    def __init__(self, policy: CausalPolicy, **settings: Any) -> None:
        super().__init__(copy.deepcopy(policy), **settings)
        self.learnt = policy

    @torch.no_grad()
    def publish(self, version: int) -> None:
        """To be called while neither side is at work."""
        for own, new in zip(self.policy.model.parameters(), self.learnt.model.parameters(), strict=True):
            own.copy_(new)
        super().publish(version)
