"""Ranks of a ``torch.distributed`` process group."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Literal

import torch
import torch.distributed as group
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from steelyard.policies.base import Policy
from steelyard.policies.reference import Reference
from steelyard.policies.sharding import replicate, shard
from steelyard.training.ranks import Ranks

Sharding = Literal["fsdp", "ddp"]


class GroupRanks(Ranks):
    """The rank of this process in the group it joined with :func:`join_group`."""

    def __init__(self, sharding: Sharding, *, offload: bool = False) -> None:
        self.rank, self.size = group.get_rank(), group.get_world_size()
        self.sharding: Sharding = sharding
        self.offload = offload
        self._replica: DistributedDataParallel | None = None

    @property
    def grouped(self) -> bool:
        return True

    def shard(self, policy: Policy, reference: Reference | None) -> None:
        if self.sharding == "ddp":
            self._replica = replicate(policy)
            return
        own = None
        if reference is not None:
            reference.keep_fingerprint()
            own = reference.own_policy()
        for model in (policy, own):
            if model is not None:
                shard(model, init_device_mesh(model.device.type, (self.size,)), offload=self.offload)

    def sum(self, tensor: Tensor) -> Tensor:
        summed = tensor.clone()
        group.all_reduce(summed)
        return summed

    def scale_loss(self, loss: Tensor) -> Tensor:
        """Undo the mean that FSDP and DDP take over ranks; the loss is already weighted over the full minibatch."""
        return loss * self.size

    def full_norm(self, norm: Tensor) -> Tensor:
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def pass_context(self, last: bool) -> AbstractContextManager[object]:
        return self._replica.no_sync() if self._replica is not None and not last else nullcontext()


def join_group(address: str, rank: int, size: int, *, seconds: float) -> None:
    """Join the process group at rank 0's ``host:port``; gloo handles CPU tensors, NCCL handles GPU tensors."""
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    timeout = timedelta(seconds=seconds)
    group.init_process_group(backend, init_method=f"tcp://{address}", rank=rank, world_size=size, timeout=timeout)


def leave_group() -> None:
    if group.is_initialized():
        group.destroy_process_group()
