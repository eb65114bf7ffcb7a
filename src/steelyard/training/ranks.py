"""What differs between one process that updates a policy and several that do it together.

Every rank has all samples and does its share of the microbatches: microbatch ``i`` is rank ``i mod size``'s.
Collectives need every rank to run equally many passes, so one that has no microbatch left runs an idle one of weight 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from steelyard.policies.base import Policy
from steelyard.policies.reference import Reference


class Ranks:
    """Where this process stands among those that update one policy together. This one is alone."""

    rank = 0
    size = 1

    @property
    def grouped(self) -> bool:
        """Whether this is a rank of a group, be it of one; its state is then saved by the group."""
        return False

    def shard(self, policy: Policy, reference: Reference | None) -> None:
        """Divide weights among the ranks, before an optimiser takes hold of them."""

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over ranks, on every rank."""
        return tensor

    def shared(self, loss: Tensor) -> Tensor:
        """The loss to go backward from, so that gradients of all ranks add up."""
        return loss

    def whole(self, norm: Tensor) -> Tensor:
        """The norm of a gradient that may be divided among ranks."""
        return norm

    def passes(self, last: bool) -> AbstractContextManager[object]:
        """Around one forward and backward; ``last`` is the one after which gradients are used."""
        return nullcontext()

    def turns(self, count: int) -> list[int | None]:
        """Which of ``count`` microbatches this rank runs, one a turn; None is an idle turn."""
        rounds = -(-count // self.size)
        places = [turn * self.size + self.rank for turn in range(rounds)]
        return [place if place < count else None for place in places]

    def joined(
        self, turns: Sequence[int | None], parts: Sequence[Mapping[str, Tensor]], count: int
    ) -> Sequence[Mapping[str, Tensor]]:
        """Metrics of all ``count`` microbatches in their order, from those of this rank's turns."""
        if self.size == 1:
            return parts
        names = list(parts[0])
        rows = torch.zeros(count, len(names), dtype=torch.float64, device=parts[0][names[0]].device)
        for place, part in zip(turns, parts, strict=True):
            if place is not None:
                rows[place] = torch.stack([part[name].double() for name in names])
        dtypes = [parts[0][name].dtype for name in names]
        return [
            {name: value.to(dtype) for name, value, dtype in zip(names, row, dtypes, strict=True)}
            for row in self.sum(rows)
        ]


ALONE = Ranks()
