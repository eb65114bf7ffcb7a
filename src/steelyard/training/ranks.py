"""The differences between a learner in one process and a learner that is one of several ranks.

Every rank receives all samples and runs its share of the microbatches: rank ``i mod size`` runs microbatch ``i``.
Collectives need the same number of passes on every rank, so a rank without a microbatch runs an idle one of weight 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from steelyard.policies.base import Policy
from steelyard.policies.reference import Reference


class Ranks:
    """The rank of this process among the processes that update one policy. The base class represents one process."""

    rank = 0
    size = 1

    @property
    def grouped(self) -> bool:
        """Whether this process is a rank of a group, even a group of one. The group then saves the state."""
        return False

    def shard(self, policy: Policy, reference: Reference | None) -> None:
        """Shard the weights across the ranks. Call this before building the optimiser."""

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum over all ranks, on every rank."""
        return tensor

    def scale_loss(self, loss: Tensor) -> Tensor:
        """Return the loss to differentiate, scaled so that the gradients of all ranks add up."""
        return loss

    def full_norm(self, norm: Tensor) -> Tensor:
        """Return the norm of the full gradient, which may be sharded across ranks."""
        return norm

    def pass_context(self, last: bool) -> AbstractContextManager[object]:
        """Return the context for a forward and backward pass; ``last`` is the final pass before the optimiser step."""
        return nullcontext()

    def turns(self, count: int) -> list[int | None]:
        """Return the indices below ``count`` of the microbatches that this rank runs; None marks an idle slot."""
        rounds = -(-count // self.size)
        numbers = [turn * self.size + self.rank for turn in range(rounds)]
        return [number if number < count else None for number in numbers]

    def gather_metrics(
        self, turns: Sequence[int | None], parts: Sequence[Mapping[str, Tensor]], count: int
    ) -> Sequence[Mapping[str, Tensor]]:
        """Combine the metrics of all ranks. Returns one entry per microbatch, in order."""
        if self.size == 1:
            return parts
        names = list(parts[0])
        rows = torch.zeros(count, len(names), dtype=torch.float64, device=parts[0][names[0]].device)
        for number, part in zip(turns, parts, strict=True):
            if number is not None:
                rows[number] = torch.stack([part[name].double() for name in names])
        dtypes = [parts[0][name].dtype for name in names]
        return [
            {name: value.to(dtype) for name, value, dtype in zip(names, row, dtypes, strict=True)}
            for row in self.sum(rows)
        ]


SINGLE_PROCESS = Ranks()
"""A learner in a single process."""
