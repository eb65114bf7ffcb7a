r"""The reference policy against which KL is measured.

The reference weights are stored as a frozen *copy* of the model, as the policy's own model with the *adapter disabled*
(no second model; correct only if training started with a new adapter), or as a *second frozen adapter*. The weights are
updated by one of three rules: never (``static``), every N steps (``periodic``), or as the exponential moving average
:math:`\phi \leftarrow d\,\phi + (1 - d)\,\theta` (``ema``).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import Tensor

from steelyard.errors import CheckpointError, PolicyError
from steelyard.policies import adapters
from steelyard.policies.base import Policy
from steelyard.policies.batch import Batch
from steelyard.policies.logprobs import Head, ScoringJob, score_decisions
from steelyard.policies.weights import fingerprint

Tensors = dict[str, Tensor]
Renewal = Callable[[int, Tensors, Tensors], None]
"""``(steps done, reference weights, policy weights)``: updates the reference weights in place."""


def static(step: int, reference: Tensors, policy: Tensors) -> None:
    """Keep the initial weights of the policy."""


class Periodic:
    """Copies the policy's weights every ``every`` steps."""

    def __init__(self, every: int) -> None:
        self.every = every

    def __call__(self, step: int, reference: Tensors, policy: Tensors) -> None:
        if step % self.every == 0:
            for name, tensor in reference.items():
                tensor.copy_(policy[name])


class Ema:
    """Exponential moving average of the policy's weights, accumulated in float32."""

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.shadow: Tensors = {}

    def __call__(self, step: int, reference: Tensors, policy: Tensors) -> None:
        for name, tensor in reference.items():
            average = self._average(name, tensor)
            average.lerp_(policy[name].to(average), 1.0 - self.decay)
            if average is not tensor:
                tensor.copy_(average)

    def _average(self, name: str, tensor: Tensor) -> Tensor:
        if tensor.dtype in (torch.float32, torch.float64):
            return tensor
        return self.shadow.setdefault(name, tensor.float())


class Reference(Protocol):
    """The reference interface used by the learner and the loop."""

    def distribution(self, batch: Batch) -> tuple[Tensor, Head]: ...
    def logp(self, batch: Batch) -> Tensor: ...
    def after_step(self, step: int) -> None: ...
    def tensors(self) -> Tensors: ...
    def load_tensors(self, tensors: Tensors) -> None: ...
    def fingerprint(self) -> str: ...
    def keep_fingerprint(self) -> None: ...
    def own_policy(self) -> Policy | None: ...


class _ReferenceBase:
    """Base class of all storage kinds; it implements scoring, updates and state."""

    def __init__(self, policy: Policy, renewal: Renewal = static) -> None:
        self.policy = policy
        self.renewal = renewal
        self._fingerprint: str | None = None

    def active(self) -> AbstractContextManager[Any]:
        raise NotImplementedError

    def weights(self) -> Tensors:
        raise NotImplementedError

    def policy_weights(self) -> Tensors:
        raise NotImplementedError

    @torch.no_grad()
    def distribution(self, batch: Batch) -> tuple[Tensor, Head]:
        with self.active():
            return self.policy.hidden(batch), self._head

    def _head(self, hidden: Tensor) -> Tensor:
        with self.active():
            return self.policy.head(hidden)

    @torch.no_grad()
    def logp(self, batch: Batch) -> Tensor:
        return self.policy.one_pass(self._logp, batch)

    def _logp(self, batch: Batch) -> Tensor:
        hidden_ND, head = self.distribution(batch)
        return score_decisions(ScoringJob(batch, head, self.policy.chunk, complete=False), hidden_ND, []).logp_N

    def own_policy(self) -> Policy | None:
        """Return the policy of the second model, or None; it is sharded like the trained policy."""
        return None

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        if self.renewal is not static:
            self.renewal(step, self.weights(), self.policy_weights())

    def tensors(self) -> Tensors:
        """Return the tensors for a checkpoint; a static reference has none, because it is rebuilt from the base."""
        if self.renewal is static:
            return {}
        shadow = self.renewal.shadow if isinstance(self.renewal, Ema) else {}
        return {**self.weights(), **{f"shadow.{name}": tensor for name, tensor in shadow.items()}}

    @torch.no_grad()
    def load_tensors(self, tensors: Tensors) -> None:
        own = {} if self.renewal is static else self.weights()
        saved = {name: tensor for name, tensor in tensors.items() if not name.startswith("shadow.")}
        if own.keys() != saved.keys():
            raise CheckpointError(
                "the checkpoint has a different kind of reference; resume with the run's own configuration"
            )
        for name, tensor in own.items():
            tensor.copy_(saved[name])
        if isinstance(self.renewal, Ema):
            averages = {name.removeprefix("shadow."): t for name, t in tensors.items() if name.startswith("shadow.")}
            self.renewal.shadow = {name: average.to(own[name].device) for name, average in averages.items()}

    def fingerprint(self) -> str:
        return self._fingerprint or fingerprint(sorted(self.weights().items()))

    def keep_fingerprint(self) -> None:
        """Store the fingerprint of a static reference before its weights are sharded across ranks."""
        self._fingerprint = self.fingerprint() if self.renewal is static else None


class CopyReference(_ReferenceBase):
    """A frozen copy of the model, on the policy's device or another one."""

    def __init__(self, policy: Policy, renewal: Renewal = static, device: torch.device | None = None) -> None:
        super().__init__(policy, renewal)
        model = copy.deepcopy(policy.model).requires_grad_(False).eval()
        self._copy = policy.with_model(model.to(device or policy.device))

    @torch.no_grad()
    def distribution(self, batch: Batch) -> tuple[Tensor, Head]:
        """Run the copy and return its hidden states and head; its output layer stays gathered until ``settle``."""
        hidden_ND = self._copy.one_pass(self._copy.hidden, batch.to(self._copy.device))
        return hidden_ND, lambda hidden: self._copy.head(hidden).to(self.policy.device)

    @torch.no_grad()
    def logp(self, batch: Batch) -> Tensor:
        return self._logp(batch)

    def own_policy(self) -> Policy | None:
        return self._copy

    def weights(self) -> Tensors:
        return dict(_unique(self._copy.model.named_parameters()))

    def policy_weights(self) -> Tensors:
        return dict(_unique(self.policy.model.named_parameters()))


class AdapterOffReference(_ReferenceBase):
    """The policy's own base model, with the adapter disabled."""

    def active(self) -> AbstractContextManager[Any]:
        return self.policy.model.disable_adapter()

    def weights(self) -> Tensors:
        return {name: p for name, p in self.policy.model.named_parameters() if not p.requires_grad}


class AdapterReference(_ReferenceBase):
    """A second, frozen adapter in the policy's model."""

    def __init__(self, policy: Policy, renewal: Renewal = static) -> None:
        super().__init__(policy, renewal)
        adapters.add_frozen_copy(policy.model)

    def active(self) -> AbstractContextManager[Any]:
        return adapters.frozen_active(self.policy.model)

    def weights(self) -> Tensors:
        return adapters.adapter_tensors(self.policy.model, adapters.FROZEN)

    def policy_weights(self) -> Tensors:
        return adapters.adapter_tensors(self.policy.model, adapters.TRAINED)


def build_reference(policy: Policy, storage: str, renewal: Renewal, device: torch.device | None = None) -> Reference:
    """Build a reference; ``storage`` is ``copy``, ``adapter_off`` or ``adapter``."""
    if storage == "copy":
        return CopyReference(policy, renewal, device)
    if device is not None and device != policy.device:
        raise PolicyError(
            f"reference.storage = {storage!r} uses the policy's own model on {policy.device}, so it cannot be on "
            f'{device}; set reference.storage = "copy" or remove reference.device'
        )
    if storage == "adapter_off":
        return AdapterOffReference(policy)
    if storage == "adapter":
        return AdapterReference(policy, renewal)
    raise PolicyError(f"reference.storage = {storage!r} is unknown; choose copy, adapter_off or adapter")


def _unique(named: Iterable[tuple[str, Tensor]]) -> Iterable[tuple[str, Tensor]]:
    seen: set[int] = set()
    for name, tensor in named:
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield name, tensor.data
