"""The learner: log-probs of a rollout, and one or more optimiser steps on it."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steelyard.algorithms.aggregation import decision_weights
from steelyard.algorithms.kl import AdaptiveKL
from steelyard.algorithms.objective import Objective, ObjectiveInput, ObjectiveOutput, merge_metrics
from steelyard.algorithms.schedules import Schedule
from steelyard.errors import TrainingError
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.reference import Reference
from steelyard.training.rollout import LearnerSample, by_length, minibatches, save_samples, stack
from steelyard.types import Sample

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UpdateRule:
    """How a rollout is turned into optimiser steps."""

    epochs: int = 1
    minibatches: int = 1
    microbatch_tokens: int = 4096
    """Padded tokens per forward and backward."""
    aggregation: str = "sequence_mean"
    constant_length: int | None = None
    grad_clip: float | None = 1.0
    max_skipped: int = 5
    seed: int = 0

    @property
    def updates(self) -> int:
        return self.epochs * self.minibatches


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Values that change over the run; with ``adaptive`` the KL coefficient follows a target from its first value."""

    lr: Schedule
    kl: Schedule
    entropy: Schedule
    adaptive: AdaptiveKL | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SampleLogps:
    """The learner's own log-probs of a rollout before the update, one array a sample; None where not needed."""

    old: list[np.ndarray] | None
    reference: list[np.ndarray] | None


class Learner:
    """Updates a policy in this process."""

    def __init__(
        self,
        policy: CausalPolicy,
        optimiser: torch.optim.Optimizer,
        objective: Objective,
        coefficients: Coefficients,
        rule: UpdateRule,
        *,
        reference: Reference | None = None,
        kl_in_reward: bool = False,
        quarantine: Path | None = None,
    ) -> None:
        self.policy, self.optimiser, self.objective = policy, optimiser, objective
        self.coefficients, self.rule, self.reference = coefficients, rule, reference
        self.kl_in_reward = kl_in_reward
        self.quarantine = quarantine
        """Where batches with a non-finite loss or gradient are written."""
        self.skipped = 0
        self.skipped_in_row = 0
        self.adapted_kl = coefficients.kl.value(0)
        self.scaler = torch.amp.GradScaler(policy.device.type, enabled=policy.needs_loss_scaling)

    # --- score ---------------------------------------------------------------------------------------------------

    def score(self, samples: Sequence[Sample]) -> SampleLogps:
        """Old and reference log-probs, where the update or the reward will need them."""
        needs_old = self.rule.updates > 1 or self.kl_in_reward  # else old is the current policy, gradient stopped
        needs_reference = self.reference is not None and self.objective.kl != "exact"
        old = self._logps(samples, lambda batch: self.policy.evaluate(batch).logp_N) if needs_old else None
        reference = self._logps(samples, self.reference.logp) if needs_reference and self.reference else None
        return SampleLogps(old, reference)

    @torch.no_grad()
    def _logps(self, samples: Sequence[Sample], logp_of_batch: Any) -> list[np.ndarray]:
        """Log-probs of every sample, in order; no activations are kept, so twice as many rows fit at once."""
        self.policy.train(False)
        found: dict[int, np.ndarray] = {}
        for chosen in by_length([len(sample.token_ids) for sample in samples], 2 * self.rule.microbatch_tokens):
            with_decisions = [index for index in chosen if len(samples[index].decisions)]
            found.update({index: np.zeros(0, np.float32) for index in chosen})
            if with_decisions:
                logp_N = logp_of_batch(self.policy.collate([samples[index] for index in with_decisions]))
                counts = [len(samples[index].decisions) for index in with_decisions]
                parts = np.split(logp_N.float().cpu().numpy(), np.cumsum(counts)[:-1])
                found.update(zip(with_decisions, parts, strict=True))
        return [found[index] for index in range(len(samples))]

    def kl_coefficient(self, step: int) -> float:
        return self.adapted_kl if self.coefficients.adaptive else self.coefficients.kl.value(step)

    # --- update --------------------------------------------------------------------------------------------------

    def update(self, samples: Sequence[LearnerSample], step: int) -> dict[str, float]:
        """Optimiser steps on a rollout; samples without decisions are left out. Returns metrics."""
        learnt = [item for item in samples if len(item.sample.decisions)]
        lr = self._set_lr(step)
        metrics = {"lr": lr, "skipped": 0.0, "kl/coefficient": self.kl_coefficient(step)}
        if not learnt:
            return metrics
        self.policy.train(True)
        self.optimiser.zero_grad(set_to_none=True)
        divided = minibatches(learnt, self.rule.minibatches, self.rule.epochs, (self.rule.seed, step))
        parts = [self._minibatch(part, step) for part in divided]
        self._adapt_kl(parts, len(learnt))
        return metrics | _over_minibatches(parts)

    def _minibatch(self, samples: Sequence[LearnerSample], step: int) -> dict[str, float]:
        """Accumulate the gradient over microbatches and take one step."""
        chosen = by_length([len(item.sample.token_ids) for item in samples], self.rule.microbatch_tokens)
        batches = [[samples[index] for index in indices] for indices in chosen]
        weights = self._weights(batches)
        outputs: list[dict[str, Tensor]] = []
        for batch, weight_N in zip(batches, weights, strict=True):
            output = self.loss(batch, weight_N, step)
            self.scaler.scale(output.loss).backward()
            outputs.append(output.metrics)
        metrics = {name: float(value) for name, value in merge_metrics(outputs).items()}
        metrics["gradient_norm"], metrics["skipped"] = self._take_step(samples, metrics["loss"], step)
        self.optimiser.zero_grad(set_to_none=True)
        return metrics

    def loss(self, batch: Sequence[LearnerSample], weight_N: Tensor, step: int) -> ObjectiveOutput:
        """The objective on one microbatch."""
        device = self.policy.device
        tensors = self.policy.collate([item.sample for item in batch])
        exact = self.reference if self.objective.kl == "exact" else None
        scores = self.policy.evaluate(tensors, exact)
        old = [item.old_logp_N for item in batch if item.old_logp_N is not None]
        reference = [item.reference_logp_N for item in batch if item.reference_logp_N is not None]
        inputs = ObjectiveInput(
            logp_N=scores.logp_N,
            old_logp_N=stack(old, device) if old else scores.logp_N.detach(),
            behaviour_logp_N=stack([item.sample.decisions.logp_N for item in batch], device),
            advantage_N=stack([item.advantage_N for item in batch], device),
            sample_N=tensors.sample_N,
            weight_N=weight_N,
            entropy_N=scores.entropy_N,
            reference_logp_N=stack(reference, device) if reference else None,
            exact_kl_N=scores.kl_N,
        )
        entropy = self.coefficients.entropy.value(step)
        return self.objective(inputs, kl_coefficient=self.kl_coefficient(step), entropy_coefficient=entropy)

    def _weights(self, batches: Sequence[Sequence[LearnerSample]]) -> list[Tensor]:
        """Weight of each decision in the minibatch's loss, divided up by microbatch."""
        counts = [len(item.sample.decisions) for batch in batches for item in batch]
        sample_N = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
        weight_N = decision_weights(self.rule.aggregation, sample_N, length=self.rule.constant_length)
        sizes = [sum(len(item.sample.decisions) for item in batch) for batch in batches]
        return [part.to(self.policy.device) for part in weight_N.split(sizes)]

    def _take_step(self, samples: Sequence[LearnerSample], loss: float, step: int) -> tuple[float, float]:
        """Clip and step, or skip when loss or gradient is not finite. Returns (gradient norm, 1.0 if skipped)."""
        self.scaler.unscale_(self.optimiser)
        parameters = [p for _, p in self.policy.trainable() if p.grad is not None]
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, self.rule.grad_clip or math.inf))
        if math.isfinite(loss) and math.isfinite(norm):
            self.scaler.step(self.optimiser)
            self.scaler.update()
            self.skipped_in_row = 0
            return norm, 0.0
        overflow = self.scaler.is_enabled() and math.isfinite(loss) and self.scaler.get_scale() > 1.0
        if self.scaler.is_enabled():
            self.scaler.update(self.scaler.get_scale() / 2)
        self.skipped += 1
        if not overflow:  # a scale that is still being found is no fault of the batch
            self._refuse(samples, loss, norm, step)
        return norm, 1.0

    def _refuse(self, samples: Sequence[LearnerSample], loss: float, norm: float, step: int) -> None:
        self.skipped_in_row += 1
        where = "not saved"
        if self.quarantine is not None:
            folder = self.quarantine / f"nonfinite-{step:08d}-{self.skipped}"
            save_samples(folder, samples, {"step": step, "loss": repr(loss), "gradient_norm": repr(norm)})
            where = str(folder)
        log.warning("step %d skipped: loss %s, gradient norm %s; batch: %s", step, loss, norm, where)
        if self.skipped_in_row >= self.rule.max_skipped:
            raise TrainingError(
                f"{self.skipped_in_row} updates in a row had a non-finite loss or gradient (last: loss {loss}, "
                f"gradient norm {norm}); the batches are in {self.quarantine}. Lower optimiser.lr, use float32 or "
                "bfloat16, or look at the rewards."
            )

    def _set_lr(self, step: int) -> float:
        lr = self.coefficients.lr.value(step)
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        return lr

    def _adapt_kl(self, parts: Sequence[Mapping[str, float]], samples: int) -> None:
        if self.coefficients.adaptive is None:
            return
        measured = [part.get("kl", part.get("kl_k3")) for part in parts]
        values = [value for value in measured if value is not None and math.isfinite(value)]
        if values:
            self.adapted_kl = self.coefficients.adaptive.update(self.adapted_kl, sum(values) / len(values), samples)

    # --- state ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            "skipped": self.skipped,
            "skipped_in_row": self.skipped_in_row,
            "adapted_kl": self.adapted_kl,
            "scaler": self.scaler.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.skipped, self.skipped_in_row = int(state["skipped"]), int(state["skipped_in_row"])
        self.adapted_kl = float(state["adapted_kl"])
        self.scaler.load_state_dict(state["scaler"])


METRIC_NAMES = {
    "loss": "loss",
    "clip_share": "clip/share",
    "kl": "kl",
    "kl_k3": "kl/k3",
    "entropy": "entropy",
    "logp": "logp/mean",
    "log_ratio": "ratio/log_abs_mean",
    "log_ratio_max": "ratio/log_abs_max",
    "importance_log_ratio": "importance/log_abs_mean",
    "importance_log_ratio_max": "importance/log_abs_max",
    "importance_ratio": "importance/ratio_mean",
    "importance_capped": "importance/capped",
    "gradient_norm": "gradient/norm",
}


def _over_minibatches(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over the optimiser steps of a rollout, maxima of maxima, sum of skips, under their public names."""
    out = {"skipped": sum(part["skipped"] for part in parts)}
    for name, public in METRIC_NAMES.items():
        values = [part[name] for part in parts if name in part]
        if values:
            out[public] = max(values) if name.endswith("_max") else sum(values) / len(values)
    return out
