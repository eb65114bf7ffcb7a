"""Policies whose weights are sharded across ranks (FSDP2) or replicated on all of them (DDP).

A policy calls its body and head separately, and calls the head once per chunk and again in the backward pass.
:class:`OnePass` combines these calls into *one* forward pass of one module for FSDP and DDP. The weights outside the
layers (embedding, last norm, output layer, tied or not) stay gathered from the start of the pass until the end of its
backward pass; those of a layer stay gathered only while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from steelyard.errors import PolicyError
from steelyard.policies.adapters import merged_weight, require_mergeable
from steelyard.policies.base import Policy

Named = list[tuple[str, Tensor]]
WeightSelection = Literal["merged", "all", "trained"]


class OnePass(nn.Module):
    """Wraps a model in a module whose ``forward`` runs any function."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return work(*arguments)


def shard(policy: Policy, mesh: DeviceMesh, *, offload: bool = False) -> None:
    """Shard every weight by its first dimension across the ranks of the mesh (FSDP2).

    Gathering and computation use the weights' own dtype or the policy's autocast, exactly as in one process; gradients
    are reduced in at least float32. With ``offload``, a rank's share of weights, gradients and optimiser state stays in
    CPU memory.
    """
    if any(not parameter.is_floating_point() for parameter in policy.model.parameters()):
        raise PolicyError("quantised weights cannot be sharded; set sharding = 'ddp' or remove model.quantize")
    device, low = policy.device, any(p.dtype.itemsize < 4 for p in policy.model.parameters())
    resting = CPUOffloadPolicy(pin_memory=device.type == "cuda") if offload else OffloadPolicy()
    precision = MixedPrecisionPolicy(reduce_dtype=torch.float32 if low else None, cast_forward_inputs=False)
    root = OnePass(policy.model)
    for layer in layers_of(policy):
        fully_shard(layer, mesh=mesh, reshard_after_forward=True, mp_policy=precision, offload_policy=resting)
    whole: Any = fully_shard(root, mesh=mesh, reshard_after_forward=False, mp_policy=precision, offload_policy=resting)
    with torch.no_grad():
        whole(lambda: None)  # the first module to run becomes the FSDP root
    policy.one_pass, policy.compute_device = whole, device
    policy.release_gathered = whole.reset_iter_state
    policy.release_gathered_weights()  # so that the optimiser sees the local shards


def replicate(policy: Policy) -> DistributedDataParallel:
    """Replicate the weights of rank 0 on all ranks and keep them equal (DDP)."""
    module = DistributedDataParallel(OnePass(policy.model), forward_sync_buffers=False, gradient_as_bucket_view=True)
    policy.one_pass = module
    return module


def layers_of(policy: Policy) -> list[nn.Module]:
    """Return the blocks that transformers never splits. Sharding changes the class of these blocks, so base classes
    count too.
    """
    kinds = set(getattr(policy.base, "_no_split_modules", None) or ())
    return [module for module in policy.base.modules() if kinds & {kind.__name__ for kind in type(module).__mro__}]


@torch.no_grad()
def portions(policy: Policy, which: WeightSelection, *, wanted: bool = True) -> Iterator[Named]:
    """Yield named, complete weights on the CPU, one layer at a time. All ranks must iterate together; ranks that pass
    ``wanted=False`` get empty portions.

    ``merged`` yields the weights with the adapter merged, under the names of the model without an adapter; ``all``
    yields every weight under its name in ``policy.model``; ``trained`` yields only the trained ones. Tied weights
    are yielded once.
    """
    policy.release_gathered_weights()
    if which == "merged":
        require_mergeable(policy.base)
    holders = [*layers_of(policy), policy.one_pass]
    inside = {id(module): number for number, layer in enumerate(holders[:-1]) for module in layer.modules()}
    by_holder: list[list[tuple[str, nn.Module]]] = [[] for _ in holders]
    for name, module in policy.model.named_modules():
        by_holder[inside.get(id(module), -1)].append((name, module))
    for holder, modules in zip(holders, by_holder, strict=True):
        with _gathered(holder):
            read = _merged(policy, modules) if which == "merged" else _plain(modules)
            chosen = ((name, weight) for name, weight in read if which != "trained" or weight.requires_grad)
            portion = [(name, weight.detach().to("cpu", copy=True)) for name, weight in chosen] if wanted else []
        yield portion


@contextmanager
def _gathered(holder: Any) -> Iterator[None]:
    if not isinstance(holder, FSDPModule):
        yield
        return
    holder.unshard()
    try:
        yield
    finally:
        holder.reshard()


def _plain(modules: list[tuple[str, nn.Module]]) -> Iterator[tuple[str, Tensor]]:
    seen: set[int] = set()
    for path, module in modules:
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield f"{path}.{name}" if path else name, parameter


def _merged(policy: Policy, modules: list[tuple[str, nn.Module]]) -> Iterator[tuple[str, Tensor]]:
    adapted = {path: module for path, module in modules if isinstance(module, BaseTunerLayer)}
    prefix = "" if policy.base is policy.model else "base_model.model."
    for name, parameter in _plain(modules):
        layer, _, part = name.partition(".base_layer.")
        if ".lora_" in name:
            continue
        if part == "weight":
            yield f"{layer}.weight".removeprefix(prefix), merged_weight(adapted[layer], parameter)
        else:
            yield (f"{layer}.{part}" if part else name).removeprefix(prefix), parameter
