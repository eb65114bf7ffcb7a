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
        """To be called while neither side is at work. What is not trained is as it was when the twin was made; the
        policy may have got weights since that the twin does not have, such as an adapter that serves as reference.
        """
        own = dict(self.policy.model.named_parameters())
        for name, new in self.learnt.trainable():
            own[name].copy_(new)
        super().publish(version)
