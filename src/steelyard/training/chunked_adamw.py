r"""AdamW for bfloat16 weights, computed in float32 one chunk at a time, without a float32 copy of the model.

For every chunk of a weight :math:`\theta` with gradient :math:`g`, in float32:

.. math:: m' = \beta_1 m + (1 - \beta_1) g, \quad v' = \beta_2 v + (1 - \beta_2) g^2, \quad
          \theta' = (1 - \eta \lambda) \theta - \eta \frac{m' / (1 - \beta_1^t)}{\sqrt{v' / (1 - \beta_2^t)} + \epsilon}

The tensors stored in bfloat16 (:math:`\theta`, and :math:`m` and :math:`v` unless they are stored in 8 bits) are
rounded stochastically; see :mod:`steelyard.training.rounding`. With bfloat16 arithmetic :math:`v` would not even decay:
at :math:`\beta_2 = 0.999`, its change is below half of its last bit. With master weights, :math:`\theta`, :math:`m` and
:math:`v` are stored in float32 next to the bfloat16 weight, which is :math:`\theta` rounded to nearest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim.adamw import adamw

from steelyard.errors import CheckpointError
from steelyard.training.rounding import STREAMS, RoundingBits, first_element, round_stochastically

CHUNKS = {"cpu": 1 << 17}
"""Number of elements per chunk on the CPU, chosen to fit its cache."""
CHUNK = 1 << 22
"""Number of elements per chunk on other devices, where every kernel launch has a cost."""

States = dict[str, Tensor]


class ChunkRule(Protocol):
    """Updates a chunk of a weight."""

    def fresh(self, weight: Tensor, moments: torch.dtype) -> States:
        """Return the initial optimiser states of a weight, sharded like the weight.

        ``moments`` is the dtype of the states whose dtype can be chosen.
        """
        ...

    def update(self, weight: Tensor, gradient: Tensor, states: States, step: int, options: Mapping[str, Any]) -> None:
        """Update weight and states in place for step ``step``, counted from 1. Floating-point tensors are float32."""
        ...

    def part(self, name: str, state: Tensor, at: int, end: int) -> Tensor:
        """Return the part of a flat state for elements ``at`` to ``end`` of the weight."""
        ...


class TorchAdamW:
    """Updates a chunk exactly as ``torch.optim.AdamW`` does, with its fused kernel."""

    def fresh(self, weight: Tensor, moments: torch.dtype) -> States:
        return {name: torch.zeros_like(weight, dtype=moments) for name in ("exp_avg", "exp_avg_sq")}

    def update(self, weight: Tensor, gradient: Tensor, states: States, step: int, options: Mapping[str, Any]) -> None:
        adamw(
            [weight],
            [gradient],
            [states["exp_avg"]],
            [states["exp_avg_sq"]],
            [],
            [torch.tensor(step - 1.0, device=weight.device)],
            fused=True,
            amsgrad=False,
            maximize=False,
            beta1=options["betas"][0],
            beta2=options["betas"][1],
            lr=options["lr"],
            weight_decay=options["weight_decay"],
            eps=options["eps"],
        )

    def part(self, name: str, state: Tensor, at: int, end: int) -> Tensor:
        return state[at:end]


class ChunkedAdamW(torch.optim.Optimizer):
    """AdamW for bfloat16 weights, with stochastic rounding keyed by ``seed`` or with ``master`` weights in float32.

    Weights in float32 are updated without rounding.
    """

    def __init__(
        self, rule: ChunkRule, parameters: Iterable[nn.Parameter], *, seed: int, master: bool, **options: Any
    ) -> None:
        super().__init__(parameters, options)
        self.rule, self.seed, self.master = rule, seed, master

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        scratch: dict[torch.device, _Scratch] = {}
        for options in self.param_groups:
            for number, weight in enumerate(options["params"]):
                if weight.grad is None:
                    continue
                if weight not in self.state:
                    self.state[weight] = self._fresh(weight)
                device = _local(weight).device
                if device not in scratch:
                    scratch[device] = _Scratch(CHUNKS.get(device.type, CHUNK), device)
                self._update(number, weight, weight.grad, options, scratch[device])
                self.state[weight]["step"] += 1

    def _fresh(self, weight: nn.Parameter) -> States:
        master = self.master and weight.dtype is torch.bfloat16
        states = self.rule.fresh(weight.detach(), torch.float32 if master else weight.dtype)
        if master:
            states["master"] = weight.detach().float()
        return {"step": torch.zeros(())} | states

    def _update(
        self, number: int, weight: nn.Parameter, gradient: Tensor, options: Mapping[str, Any], scratch: _Scratch
    ) -> None:
        states = {name: _flat(state) for name, state in self.state[weight].items() if name != "step"}
        step, kept, gradient = int(self.state[weight]["step"]) + 1, _flat(weight), _local(gradient).reshape(-1)
        exact, start = states.pop("master", kept), first_element(weight)
        bits = RoundingBits(self.seed, step, number, weight.numel(), kept.device)
        for at, end in _spans(start, len(kept), scratch.chunk):
            parts = {"weight": exact[at:end]} | {n: self.rule.part(n, state, at, end) for n, state in states.items()}
            wide, rounded = scratch.to_float32(parts)
            value = wide.pop("weight")
            self.rule.update(value, scratch.gradient(gradient[at:end]), wide, step, options)
            if exact is not kept:
                kept[at:end].copy_(value)
            elif rounded:
                values, chosen = scratch.values[: len(rounded), : end - at], scratch.bits[: len(rounded), : end - at]
                bits.into(start + at, chosen)
                round_stochastically(values, chosen)
                for name, row in zip(rounded, values, strict=True):
                    parts[name].copy_(row)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Load a state dict as torch does, but keep the dtypes of the states instead of casting them."""
        super().load_state_dict({"state": {}, "param_groups": state_dict["param_groups"]})
        weights = [weight for options in self.param_groups for weight in options["params"]]
        for number, saved in state_dict["state"].items():
            states = self._fresh(weights[number])
            _require_same(states, saved)
            for name, state in states.items():
                state.copy_(torch.as_tensor(saved[name]))
            self.state[weights[number]] = states


def _require_same(own: Mapping[str, Tensor], saved: Mapping[str, Any]) -> None:
    described = [
        {name: (tuple(state.shape), state.dtype) for name, state in states.items() if name != "step"}
        for states in (own, {name: torch.as_tensor(value) for name, value in saved.items()})
    ]
    if described[0] != described[1]:
        raise CheckpointError(
            f"the optimiser states of the checkpoint ({', '.join(sorted(saved))}) differ from those of this optimiser "
            f"({', '.join(sorted(own))}) in name, dtype or shape: resume with the optimiser.name and "
            "optimiser.rounding of the run"
        )


def _spans(start: int, count: int, chunk: int) -> Iterator[tuple[int, int]]:
    """Split a shard, which starts at element ``start``, at the chunk boundaries of the full weight."""
    at = 0
    while at < count:
        end = min(count, at + chunk - (start + at) % chunk)
        yield at, end
        at = end


class _Scratch:
    """Buffers for one chunk: float32 copies of the weight, its two moments and its gradient, and random bits."""

    def __init__(self, chunk: int, device: torch.device) -> None:
        self.chunk = chunk
        self.values = torch.empty(STREAMS, chunk, device=device)
        self.bits = torch.empty(STREAMS, chunk, dtype=torch.int32, device=device)
        self._gradient = torch.empty(chunk, device=device)

    def to_float32(self, parts: Mapping[str, Tensor]) -> tuple[States, list[str]]:
        """Return the parts in float32 and the names of those that were bfloat16, which are rows of ``values``."""
        narrow = [name for name, part in parts.items() if part.dtype is torch.bfloat16]
        rows = {name: row[: len(parts[name])] for name, row in zip(narrow, self.values, strict=False)}
        return dict(parts) | {name: row.copy_(parts[name]) for name, row in rows.items()}, narrow

    def gradient(self, gradient: Tensor) -> Tensor:
        """Return the gradient in float32."""
        return gradient if gradient.dtype is torch.float32 else self._gradient[: len(gradient)].copy_(gradient)


def _flat(tensor: Tensor) -> Tensor:
    return _local(tensor).view(-1)


def _local(tensor: Tensor) -> Tensor:
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach()
