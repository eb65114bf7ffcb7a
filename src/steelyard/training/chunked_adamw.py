r"""AdamW for weights of bfloat16, computed in float32 a chunk at a time, so that no float32 copy of the model exists.

For every chunk of a weight :math:`\theta` with gradient :math:`g`, in float32:

.. math:: m' = \beta_1 m + (1 - \beta_1) g, \quad v' = \beta_2 v + (1 - \beta_2) g^2, \quad
          \theta' = (1 - \eta \lambda) \theta - \eta \frac{m' / (1 - \beta_1^t)}{\sqrt{v' / (1 - \beta_2^t)} + \epsilon}

and what is kept in bfloat16 (:math:`\theta`, and :math:`m`, :math:`v` unless they have 8 bits) is rounded
stochastically, see :mod:`steelyard.training.rounding`. In bfloat16 arithmetic, :math:`v` would not even decay: at
:math:`\beta_2 = 0.999` its change is below half of its last bit. With master weights, :math:`\theta, m, v` are kept in
float32 next to the weight, which is :math:`\theta` rounded to nearest.
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
"""Elements that are computed at once: what fits a CPU's cache."""
CHUNK = 1 << 22
"""On other devices, where every operation has a price of its own."""

States = dict[str, Tensor]


class ChunkRule(Protocol):
    """How a chunk of a weight is updated."""

    def fresh(self, weight: Tensor, moments: torch.dtype) -> States:
        """The states of a weight before its first step, divided among ranks as it is; ``moments`` is the type of those
        that can have any.
        """
        ...

    def update(self, weight: Tensor, gradient: Tensor, states: States, step: int, options: Mapping[str, Any]) -> None:
        """Take step number ``step`` (from 1 on), in place; floating-point tensors are float32."""
        ...

    def part(self, name: str, state: Tensor, at: int, end: int) -> Tensor:
        """The part of a flat state that belongs to elements ``at`` to ``end`` of the weight."""
        ...


class TorchAdamW:
    """The arithmetic of ``torch.optim.AdamW``, by its fused kernel."""

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
    """AdamW with weights that are rounded stochastically by ``seed``, or that have ``master`` weights in float32.

    Weights of float32 are updated as they are.
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
            wide, rounded = scratch.widened(parts)
            value = wide.pop("weight")
            self.rule.update(value, scratch.float32(gradient[at:end]), wide, step, options)
            if exact is not kept:
                kept[at:end].copy_(value)
            elif rounded:
                values, chosen = scratch.values[: len(rounded), : end - at], scratch.bits[: len(rounded), : end - at]
                bits.into(start + at, chosen)
                round_stochastically(values, chosen)
                for name, row in zip(rounded, values, strict=True):
                    parts[name].copy_(row)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """As torch does, but states keep types of their own where torch gives them the type of the weight."""
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
            f"the optimiser of the checkpoint has the states {', '.join(sorted(saved))}, this one has "
            f"{', '.join(sorted(own))}, or they differ in type or shape; resume with the run's own optimiser.name and "
            "optimiser.rounding"
        )


def _spans(start: int, count: int, chunk: int) -> Iterator[tuple[int, int]]:
    """Divide a part of a weight that starts at element ``start`` where the whole weight is divided into chunks."""
    at = 0
    while at < count:
        end = min(count, at + chunk - (start + at) % chunk)
        yield at, end
        at = end


class _Scratch:
    """Memory in which a chunk is computed: float32 copies of a weight, two moments and the gradient; random bits."""

    def __init__(self, chunk: int, device: torch.device) -> None:
        self.chunk = chunk
        self.values = torch.empty(STREAMS, chunk, device=device)
        self.bits = torch.empty(STREAMS, chunk, dtype=torch.int32, device=device)
        self._gradient = torch.empty(chunk, device=device)

    def widened(self, parts: Mapping[str, Tensor]) -> tuple[States, list[str]]:
        """The parts in float32, those of bfloat16 as rows of ``values``, and the names of these in their order."""
        narrow = [name for name, part in parts.items() if part.dtype is torch.bfloat16]
        rows = {name: row[: len(parts[name])] for name, row in zip(narrow, self.values, strict=False)}
        return dict(parts) | {name: row.copy_(parts[name]) for name, row in rows.items()}, narrow

    def float32(self, gradient: Tensor) -> Tensor:
        return gradient if gradient.dtype is torch.float32 else self._gradient[: len(gradient)].copy_(gradient)


def _flat(tensor: Tensor) -> Tensor:
    return _local(tensor).view(-1)


def _local(tensor: Tensor) -> Tensor:
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach()
