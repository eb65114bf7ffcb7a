"""The loss of a microbatch: surrogate, importance correction, KL and entropy.

``loss = sum_N weight_N * (importance_N * (surrogate_N + kl_coefficient * kl_N) - entropy_coefficient * entropy_N)``

A KL term estimated from the sampled token needs the same importance weight as the surrogate, because the sampler drew
that token. Entropy and ``exact`` KL are sums over the support and need no importance weight. ``weight_N`` comes from
`decision_weights` over the whole minibatch, so the losses, gradients and metrics of its microbatches add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from steelyard.algorithms.flat import max_or_zero, require_flat
from steelyard.algorithms.importance import importance_statistics, importance_weights
from steelyard.algorithms.kl import LOSS_ESTIMATORS, check_loss_estimator, k3, kl_term
from steelyard.algorithms.surrogates import Surrogate, SurrogateInput, SurrogateOutput
from steelyard.errors import ConfigError


@dataclass(frozen=True, slots=True, eq=False)
class ObjectiveInput:
    """The N decisions of a microbatch in one flat tensor per quantity.

    Gradients flow through ``logp_N``, ``entropy_N`` and ``exact_kl_N``.
    """

    logp_N: Tensor
    """Log-probs under the current policy."""
    old_logp_N: Tensor
    """Log-probs under the learner's policy at the start of the update; ``logp_N.detach()`` for a single update."""
    behaviour_logp_N: Tensor
    """Log-probs that the sampler recorded."""
    advantage_N: Tensor
    sample_N: Tensor
    weight_N: Tensor
    entropy_N: Tensor | None = None
    reference_logp_N: Tensor | None = None
    exact_kl_N: Tensor | None = None

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in self.__slots__}
        require_flat(**{name: tensor for name, tensor in given.items() if tensor is not None})


@dataclass(frozen=True, slots=True, eq=False)
class ObjectiveOutput:
    """The loss of a microbatch and its metrics."""

    loss: Tensor
    metrics: dict[str, Tensor]
    """Detached scalars. ``loss`` and ``weight`` are sums, keys that end in ``_max`` are maxima, and all others are sums
    weighted by ``weight_N``. `merge_metrics` combines the metrics of several microbatches."""


@dataclass(frozen=True, slots=True)
class Objective:
    """Computes the loss from a surrogate, an optional KL term and an optional importance correction."""

    surrogate: Surrogate
    kl: str | None = None
    """``k2``, ``k3``, ``k3_unbiased`` or ``exact``; ``None`` leaves KL out of the loss."""
    importance_cap: float | None = None
    """Upper bound on the importance ratio old / behaviour; ``None`` disables the correction."""

    def __post_init__(self) -> None:
        if self.kl is not None:
            check_loss_estimator(self.kl)
        if self.importance_cap is not None and self.importance_cap <= 0:
            raise ConfigError(f"importance_cap = {self.importance_cap} must be above 0; 2 is a common choice")

    def __call__(
        self, inp: ObjectiveInput, *, kl_coefficient: float = 0.0, entropy_coefficient: float = 0.0
    ) -> ObjectiveOutput:
        surrogate = self.surrogate(SurrogateInput(inp.logp_N, inp.old_logp_N, inp.advantage_N, inp.sample_N))
        importance_N = self._importance(inp)
        loss_N = importance_N * surrogate.loss_N
        kl_N = self._kl(inp, importance_N)
        if kl_N is not None and kl_coefficient:
            loss_N = loss_N + kl_coefficient * kl_N
        if entropy_coefficient:
            if inp.entropy_N is None:
                raise ValueError(
                    f"entropy_coefficient = {entropy_coefficient} needs entropy_N, which is None; set it in the input"
                )
            loss_N = loss_N - entropy_coefficient * inp.entropy_N
        loss = (inp.weight_N * loss_N).sum()
        return ObjectiveOutput(loss, self._metrics(inp, surrogate, kl_N, importance_N, loss))

    def _importance(self, inp: ObjectiveInput) -> Tensor | float:
        if self.importance_cap is None:
            return 1.0
        return importance_weights(inp.old_logp_N, inp.behaviour_logp_N, self.importance_cap)

    def _kl(self, inp: ObjectiveInput, importance_N: Tensor | float) -> Tensor | None:
        if self.kl is None:
            return None
        exact = LOSS_ESTIMATORS[self.kl]
        field, tensor = ("exact_kl_N", inp.exact_kl_N) if exact else ("reference_logp_N", inp.reference_logp_N)
        if tensor is None:
            raise ValueError(f"kl = {self.kl!r} needs {field}, which is None; set it in the input")
        return tensor if exact else importance_N * kl_term(self.kl, inp.logp_N, tensor, inp.old_logp_N)

    def _metrics(
        self,
        inp: ObjectiveInput,
        surrogate: SurrogateOutput,
        kl_N: Tensor | None,
        importance_N: Tensor | float,
        loss: Tensor,
    ) -> dict[str, Tensor]:
        logp_N = inp.logp_N.detach()
        log_ratio_N = (logp_N - inp.old_logp_N.detach()).abs()
        importance = importance_statistics(inp.old_logp_N, inp.behaviour_logp_N, inp.weight_N, self.importance_cap)
        means: dict[str, Tensor | None] = {
            "clip_share": surrogate.clipped_N,
            "kl": kl_N,
            "kl_k3": None if inp.reference_logp_N is None else importance_N * k3(logp_N - inp.reference_logp_N),
            "entropy": inp.entropy_N,
            "logp": logp_N,
            "log_ratio": log_ratio_N,
        }
        return {
            "loss": loss.detach(),
            "weight": inp.weight_N.sum(),
            **{key: (inp.weight_N * value_N.detach()).sum() for key, value_N in means.items() if value_N is not None},
            "log_ratio_max": max_or_zero(log_ratio_N),
            "importance_log_ratio": importance.log_ratio,
            "importance_log_ratio_max": importance.log_ratio_max,
            "importance_ratio": importance.ratio,
            "importance_capped": importance.capped,
        }


def merge_metrics(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Combine the metrics of microbatches into those of the minibatch.

    ``loss`` and ``weight`` are summed, ``*_max`` takes the maximum, and all others become weighted means. The means are
    divided by the total weight, which is not 1 under ``constant`` aggregation.
    """
    keys = list(parts[0]) if parts else []
    joined = {key: torch.stack([part[key] for part in parts]) for key in keys}
    merged: dict[str, Tensor] = {}
    for key, value_P in joined.items():
        if key.endswith("_max"):
            merged[key] = value_P.max()
        elif key in ("loss", "weight"):
            merged[key] = value_P.sum()
        else:
            merged[key] = value_P.sum() / joined["weight"].sum().clamp(min=torch.finfo(value_P.dtype).tiny)
    return merged
