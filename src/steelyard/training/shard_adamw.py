"""8-bit AdamW from bitsandbytes for sharded weights.

bitsandbytes does not support sharded tensors, so it receives the local shard of each weight as an ordinary tensor. The
optimiser states are quantised in blocks of 256 numbers. The blocks are the same as in one process unless a block would
span two ranks. A weight whose sharding would split a block has 32-bit states, like all weights with fewer than 4096
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Shard

BLOCK = 256
SMALL = 4096
ALWAYS, NEVER = 0, 2**62


class ShardAdamW8bit(torch.optim.Optimizer):
    """Combines a bitsandbytes optimiser for weights with 8-bit states and one for all others into a torch optimiser.

    ``state`` holds the tensors in the layout of a checkpoint: sharded like their weight, with the maxima of the blocks
    in rows of complete blocks.
    """

    def __init__(self, engine: Any, parameters: Iterable[nn.Parameter], **options: Any) -> None:
        super().__init__(parameters, options)
        weights: list[nn.Parameter] = self.param_groups[0]["params"]
        self._local = {weight: nn.Parameter(_local(weight), requires_grad=True) for weight in weights}
        held = [weight for weight in weights if self._local[weight].numel()]
        kinds = {ALWAYS: [w for w in held if in_8_bits(w)], NEVER: [w for w in held if not in_8_bits(w)]}
        self._engines = [
            engine([self._local[weight] for weight in chosen], min_8bit_size=size, **options)
            for size, chosen in kinds.items()
            if chosen
        ]

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for weight, local in self._local.items():
            local.grad = None if weight.grad is None else _local(weight.grad)
            if weight.grad is not None and weight not in self.state:
                self.state[weight] = self._fresh(weight)
        for engine in self._engines:
            for group in engine.param_groups:
                group["lr"] = self.param_groups[0]["lr"]
                self._share_states(engine, group["params"])
            engine.step()
        for weight, local in self._local.items():
            if local.grad is not None:
                self.state[weight]["step"] += 1
                local.grad = None

    def _fresh(self, weight: nn.Parameter) -> dict[str, Tensor]:
        return {"step": torch.zeros(())} | fresh_states(weight)

    def _share_states(self, engine: Any, locals_: list[nn.Parameter]) -> None:
        """Give the bitsandbytes optimiser its states. These states share the memory of the tensors in ``state``."""
        owner = {id(local): weight for weight, local in self._local.items()}
        for index, local in enumerate(locals_):
            if local.grad is None:
                continue
            own = self.state[owner[id(local)]]
            if not engine.state[local]:
                engine.init_state(engine.param_groups[0], local, 0, index)
            shared: dict[str, Any] = {name: _local(tensor) for name, tensor in own.items() if name != "step"}
            blocks = -(-local.numel() // BLOCK)
            shared |= {name: tensor.flatten()[:blocks] for name, tensor in shared.items() if name.startswith("absmax")}
            engine.state[local].update(shared, step=int(own["step"]))


class BlockAdamW8bit:
    """Updates a chunk of a weight with 8-bit AdamW, as a rule for ``steelyard.training.chunked_adamw.ChunkedAdamW``.

    A chunk must consist of complete blocks.
    """

    def __init__(self, engine: Any) -> None:
        from bitsandbytes import functional

        self._functional = functional
        tables = engine([nn.Parameter(torch.zeros(1))])
        tables.fill_qmap()
        self._tables: dict[str, Tensor] = tables.name2qmap

    def fresh(self, weight: Tensor, moments: torch.dtype) -> dict[str, Tensor]:
        return fresh_states(weight)

    def update(
        self, weight: Tensor, gradient: Tensor, states: dict[str, Tensor], step: int, options: Mapping[str, Any]
    ) -> None:
        first, second = states["state1"], states["state2"]
        (beta1, beta2), eps, lr, decay = options["betas"], options["eps"], options["lr"], options["weight_decay"]
        if first.dtype is torch.float32:
            self._functional.optimizer_update_32bit(
                "adam", gradient, weight, first, beta1, eps, step, lr, second, beta2, weight_decay=decay
            )
            return
        signed, unsigned = (self._tables[name].to(weight.device) for name in ("dynamic", "udynamic"))
        maxima = states["absmax1"], states["absmax2"]
        moments = (gradient, weight, first, second, beta1, beta2, 0.0, 0.0, eps, step, lr, signed, unsigned, *maxima)
        self._functional.optimizer_update_8bit_blockwise("adam", *moments, weight_decay=decay)

    def part(self, name: str, state: Tensor, at: int, end: int) -> Tensor:
        return state[at // BLOCK : -(-end // BLOCK)] if name.startswith("absmax") else state[at:end]


def fresh_states(weight: Tensor) -> dict[str, Tensor]:
    """Return zero moments, in 8 bits with the maxima of their blocks if possible."""
    eight = in_8_bits(weight)
    moments = [torch.zeros_like(weight, dtype=torch.uint8 if eight else torch.float32) for _ in range(2)]
    states = {"state1": moments[0].detach(), "state2": moments[1].detach()}
    if eight:
        states |= {"absmax1": _maxima(weight), "absmax2": _maxima(weight)}
    return states


def in_8_bits(weight: Tensor) -> bool:
    """Return whether a weight has 8-bit states: it is large, and no block spans two ranks."""
    if weight.numel() < SMALL:
        return False
    if not isinstance(weight, DTensor) or weight.device_mesh.size() == 1:
        return True
    rows = -(-weight.shape[0] // weight.device_mesh.size())
    return rows % _rows_of_blocks(weight) == 0


def _rows_of_blocks(weight: Tensor) -> int:
    """Return the smallest number of rows that consists of complete blocks."""
    width = weight.numel() // weight.shape[0]
    return BLOCK // math.gcd(BLOCK, width)


def _maxima(weight: Tensor) -> Tensor:
    """Return zeros for the maximum of every block, in rows that are sharded like the weight."""
    rows, width = _rows_of_blocks(weight), weight.numel() // weight.shape[0]
    shape = (-(-weight.shape[0] // rows), rows * width // BLOCK)
    if not isinstance(weight, DTensor):
        return torch.zeros(shape, device=weight.device)
    local = torch.zeros(-(-weight.to_local().shape[0] // rows), shape[1], device=weight.to_local().device)
    return DTensor.from_local(
        local, weight.device_mesh, [Shard(0)], run_check=False, shape=torch.Size(shape), stride=(shape[1], 1)
    )


def _local(tensor: Tensor) -> Tensor:
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach()


def state_by_name(named: Mapping[str, nn.Parameter], optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the tensors of an optimiser's state, named after their weights."""
    return {
        f"{name}.{key}": value
        for name, weight in named.items()
        for key, value in optimiser.state.get(weight, {}).items()
        if isinstance(value, Tensor)
    }
