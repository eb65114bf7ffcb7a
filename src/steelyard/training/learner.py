"""The learner computes the log-probs of a rollout and takes one or more optimiser steps on it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from steelyard import defaults
from steelyard.algorithms.aggregation import decision_weights
from steelyard.algorithms.kl import AdaptiveKL
from steelyard.algorithms.objective import Objective, ObjectiveInput, ObjectiveOutput, merge_metrics
from steelyard.algorithms.schedules import Schedule
from steelyard.checkpoint import Checkpoint, Tree, Writer
from steelyard.errors import CheckpointError, TrainingError
from steelyard.policies.base import Policy
from steelyard.policies.batch import Batch
from steelyard.policies.reference import Reference
from steelyard.tracking import Activity, Report, silent
from steelyard.training.learner_samples import (
    LearnerSample,
    by_length,
    concatenate,
    minibatches,
    sample_labels,
    save_samples,
)
from steelyard.training.ranks import SINGLE_PROCESS, Ranks
from steelyard.types import Sample

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UpdateRule:
    """How a rollout is divided into optimiser steps."""

    epochs: int = defaults.EPOCHS
    minibatches: int = defaults.MINIBATCHES
    microbatch_tokens: int = 4096
    """Maximum number of padded tokens per forward and backward pass."""
    aggregation: str = defaults.AGGREGATION
    constant_length: int | None = None
    grad_clip: float | None = defaults.GRAD_CLIP
    max_skipped: int = defaults.MAX_SKIPPED
    seed: int = 0

    @property
    def updates(self) -> int:
        """Number of optimiser steps per rollout."""
        return self.epochs * self.minibatches


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Scheduled coefficients. With ``adaptive``, the KL coefficient starts at its first value and tracks a target."""

    lr: Schedule
    kl: Schedule
    entropy: Schedule
    adaptive: AdaptiveKL | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SampleLogps:
    """The learner's log-probs before the update, one array per sample; None if they are not needed."""

    old: list[np.ndarray] | None
    reference: list[np.ndarray] | None


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointParts:
    """The learner's part of a checkpoint, as arguments of ``Store.save``."""

    folders: dict[str, Writer] = field(default_factory=dict[str, Writer])
    tensors: dict[str, Tree] = field(default_factory=dict[str, Tree])
    state: dict[str, Any] = field(default_factory=dict[str, Any])


class AnyLearner(Protocol):
    """The interface of a learner, in this process or in a group of ranks."""

    rule: UpdateRule
    kl_in_reward: bool

    def score(self, samples: Sequence[Sample]) -> SampleLogps: ...
    def kl_coefficient(self, step: int) -> float: ...
    def update(self, samples: Sequence[LearnerSample], step: int, report: Report = ...) -> dict[str, float]: ...
    def after_step(self, step: int) -> None: ...
    def checkpoint_parts(self) -> CheckpointParts: ...
    def restore(self, checkpoint: Checkpoint) -> None: ...
    def close(self) -> None: ...


SHARDS = "ranks"
"""Checkpoint folder that holds the state of a group of ranks."""


class Learner:
    """Updates a policy in this process, alone or as one of several ranks."""

    def __init__(
        self,
        policy: Policy,
        optimiser: torch.optim.Optimizer,
        objective: Objective,
        coefficients: Coefficients,
        rule: UpdateRule,
        *,
        reference: Reference | None = None,
        kl_in_reward: bool = False,
        quarantine: Path | None = None,
        ranks: Ranks = SINGLE_PROCESS,
    ) -> None:
        self.ranks = ranks
        self.policy, self.optimiser, self.objective = policy, optimiser, objective
        self.coefficients, self.rule, self.reference = coefficients, rule, reference
        self.kl_in_reward = kl_in_reward
        self.quarantine = quarantine
        """Folder for batches with a non-finite loss or gradient."""
        self.skipped = 0
        self.skipped_in_row = 0
        self.adapted_kl = coefficients.kl.value(0)
        self.scaler = torch.amp.GradScaler(policy.device.type, enabled=policy.needs_loss_scaling)

    # --- score ---------------------------------------------------------------------------------------------------

    def score(self, samples: Sequence[Sample]) -> SampleLogps:
        """Compute the old and reference log-probs if the update or the reward needs them."""
        needs_old = self.rule.updates > 1 or self.kl_in_reward  # otherwise old is the current log-prob, detached
        needs_reference = self.reference is not None and self.objective.kl != "exact"
        old = self._logps(samples, lambda batch: self.policy.evaluate(batch).logp_N) if needs_old else None
        reference = self._logps(samples, self.reference.logp) if needs_reference and self.reference else None
        return SampleLogps(old, reference)

    @torch.no_grad()
    def _logps(self, samples: Sequence[Sample], logp_of_batch: Callable[[Batch], Tensor]) -> list[np.ndarray]:
        """Return the log-probs of every sample in order. Storing no activations allows batches twice as large."""
        self.policy.train(False)
        batches = by_length([len(sample.token_ids) for sample in samples], 2 * self.rule.microbatch_tokens)
        batches = [[index for index in batch if len(samples[index].decisions)] for batch in batches]
        batches = [batch for batch in batches if batch]
        ends = np.cumsum([len(sample.decisions) for sample in samples])
        all_logp_N = torch.zeros(int(ends[-1]) if len(ends) else 0)
        for number in self.ranks.turns(len(batches)):
            batch = batches[-1][-1:] if number is None else batches[number]
            logp_N = logp_of_batch(self.policy.collate([samples[index] for index in batch])).float().cpu()
            counts = [len(samples[index].decisions) for index in batch]
            for index, part_N in zip(batch, logp_N.split(counts), strict=True):
                if number is not None:
                    all_logp_N[ends[index] - len(part_N) : ends[index]] = part_N
        self._settle()
        return np.split(self.ranks.sum(all_logp_N).numpy(), ends[:-1])

    def _settle(self) -> None:
        """Free weights that were gathered from other ranks."""
        reference = None if self.reference is None else self.reference.own_policy()
        for policy in (self.policy, reference):
            if policy is not None:
                policy.release_gathered_weights()

    def kl_coefficient(self, step: int) -> float:
        """Return the KL coefficient of a step."""
        return self.adapted_kl if self.coefficients.adaptive else self.coefficients.kl.value(step)

    # --- update --------------------------------------------------------------------------------------------------

    def update(self, samples: Sequence[LearnerSample], step: int, report: Report = silent) -> dict[str, float]:
        """Take the optimiser steps of a rollout and return metrics. Samples without decisions are skipped."""
        learnt = [item for item in samples if len(item.sample.decisions)]
        lr = self._set_lr(step)
        metrics = {"lr": lr, "skipped": 0.0, "kl/coefficient": self.kl_coefficient(step)}
        if not learnt:
            return metrics
        self.policy.train(True)
        self.optimiser.zero_grad(set_to_none=True)
        parts = minibatches(learnt, self.rule.minibatches, self.rule.epochs, (self.rule.seed, step))
        count = int(sample_labels(learnt).max()) + 1
        steps = self.rule.epochs * min(self.rule.minibatches, count)
        advance = _progress(report, self.rule.epochs * len(learnt), steps)
        results = [self._minibatch(part, step, partial(advance, number)) for number, part in enumerate(parts, start=1)]
        self._settle()
        self._adapt_kl(results, count)
        return metrics | _mean_metrics(results)

    def _minibatch(
        self, samples: Sequence[LearnerSample], step: int, advance: Callable[[int], None]
    ) -> dict[str, float]:
        """Accumulate the gradient over the microbatches and take one optimiser step."""
        chosen = by_length([len(item.sample.token_ids) for item in samples], self.rule.microbatch_tokens)
        batches = [[samples[index] for index in indices] for indices in chosen]
        weights = self._weights(batches)
        outputs: list[dict[str, Tensor]] = []
        turns = self.ranks.turns(len(batches))
        for turn, number in enumerate(turns):
            batch, weight_N = _idle(batches, weights) if number is None else (batches[number], weights[number])
            with self.ranks.pass_context(last=turn == len(turns) - 1):
                output = self.loss(batch, weight_N, step)
                self.scaler.scale(self.ranks.scale_loss(output.loss)).backward()
            outputs.append(output.metrics)
            advance(len(batch))
        merged = merge_metrics(self.ranks.gather_metrics(turns, outputs, len(batches)))
        metrics = {name: float(value) for name, value in merged.items()}
        metrics["gradient_norm"], metrics["skipped"] = self._take_step(samples, metrics["loss"], step)
        self.optimiser.zero_grad(set_to_none=True)
        return metrics

    def loss(self, batch: Sequence[LearnerSample], weight_N: Tensor, step: int) -> ObjectiveOutput:
        """Compute the objective of one microbatch."""
        device = self.policy.device
        tensors = self.policy.collate([item.sample for item in batch])
        exact = self.reference if self.objective.kl == "exact" else None
        scores = self.policy.evaluate(tensors, exact)
        old = [item.old_logp_N for item in batch if item.old_logp_N is not None]
        reference = [item.reference_logp_N for item in batch if item.reference_logp_N is not None]
        inputs = ObjectiveInput(
            logp_N=scores.logp_N,
            old_logp_N=concatenate(old, device) if old else scores.logp_N.detach(),
            behaviour_logp_N=concatenate([item.sample.decisions.logp_N for item in batch], device),
            advantage_N=concatenate([item.advantage_N for item in batch], device),
            sample_N=tensors.sample_N,
            weight_N=weight_N,
            entropy_N=scores.entropy_N,
            reference_logp_N=concatenate(reference, device) if reference else None,
            exact_kl_N=scores.kl_N,
        )
        entropy = self.coefficients.entropy.value(step)
        return self.objective(inputs, kl_coefficient=self.kl_coefficient(step), entropy_coefficient=entropy)

    def _weights(self, batches: Sequence[Sequence[LearnerSample]]) -> list[Tensor]:
        """Return the weight of each decision in the loss of the minibatch, one tensor per microbatch."""
        rows = [item for batch in batches for item in batch]
        counts = torch.tensor([len(item.sample.decisions) for item in rows])
        sample_N = torch.repeat_interleave(torch.from_numpy(sample_labels(rows)), counts)
        weight_N = decision_weights(self.rule.aggregation, sample_N, length=self.rule.constant_length)
        sizes = [sum(len(item.sample.decisions) for item in batch) for batch in batches]
        return [part.to(self.policy.device) for part in weight_N.split(sizes)]

    def _take_step(self, samples: Sequence[LearnerSample], loss: float, step: int) -> tuple[float, float]:
        """Clip the gradient and take a step, or skip it if the loss or the gradient is not finite.

        Returns (gradient norm, 1.0 if skipped else 0.0).
        """
        self.scaler.unscale_(self.optimiser)
        parameters = [p for _, p in self.policy.trainable() if p.grad is not None]
        norm = float(self.ranks.full_norm(torch.nn.utils.clip_grad_norm_(parameters, self.rule.grad_clip or math.inf)))
        if math.isfinite(loss) and math.isfinite(norm):
            self.scaler.step(self.optimiser)
            self.scaler.update()
            self.skipped_in_row = 0
            return norm, 0.0
        overflow = self.scaler.is_enabled() and math.isfinite(loss) and self.scaler.get_scale() > 1.0
        if self.scaler.is_enabled():
            self.scaler.update(self.scaler.get_scale() / 2)
        self.skipped += 1
        if not overflow:  # a loss-scale overflow says nothing about the batch
            self._quarantine_batch(samples, loss, norm, step)
        return norm, 1.0

    def _quarantine_batch(self, samples: Sequence[LearnerSample], loss: float, norm: float, step: int) -> None:
        """Save a batch with a non-finite loss or gradient. Raise an error after ``max_skipped`` such batches in a
        row.
        """
        self.skipped_in_row += 1
        where = "not saved"
        if self.quarantine is not None:
            folder = self.quarantine / f"nonfinite-{step:08d}-{self.skipped}"
            try:
                save_samples(folder, samples, {"step": step, "loss": repr(loss), "gradient_norm": repr(norm)})
                where = str(folder)
            except (OSError, SafetensorError) as error:
                where = f"not saved ({error})"
        log.warning("update skipped at step %d: loss %s, gradient norm %s; batch: %s", step, loss, norm, where)
        if self.skipped_in_row >= self.rule.max_skipped:
            raise TrainingError(
                f"{self.skipped_in_row} consecutive updates had a non-finite loss or gradient (last: loss {loss}, "
                f"gradient norm {norm}). The batches are in {self.quarantine}. Lower optimiser.lr, use float32 or "
                "bfloat16, or inspect the rewards."
            )

    def _set_lr(self, step: int) -> float:
        lr = self.coefficients.lr.value(step)
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        return lr

    def _adapt_kl(self, results: Sequence[Mapping[str, float]], samples: int) -> None:
        if self.coefficients.adaptive is None:
            return
        measured = [result.get("kl", result.get("kl_k3")) for result in results]
        values = [value for value in measured if value is not None and math.isfinite(value)]
        if values:
            self.adapted_kl = self.coefficients.adaptive.update(self.adapted_kl, sum(values) / len(values), samples)

    def after_step(self, step: int) -> None:
        """Update the reference policy if it is due."""
        if self.reference is not None:
            self.reference.after_step(step)

    # --- state ---------------------------------------------------------------------------------------------------

    def checkpoint_parts(self) -> CheckpointParts:
        """Return the learner's state for a checkpoint."""
        tensors: dict[str, Any] = {"optimiser": self.optimiser.state_dict()}
        if self.reference is not None:
            tensors["reference"] = self.reference.tensors()
        state = {"learner": self.state_dict(), "reference": self.reference_fingerprint()}
        return CheckpointParts({"model": self.policy.save_pretrained}, tensors, state)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Load the state of a checkpoint."""
        self.require_fit(checkpoint)
        if checkpoint.has(SHARDS):
            raise CheckpointError(
                f"{checkpoint.path} was written by a group of learner ranks: resume it with [cluster.learners]; "
                "ranks = 1 is enough"
            )
        self.policy.load_weights(checkpoint.folder("model"))
        try:
            self.optimiser.load_state_dict(checkpoint.tensors("optimiser"))
        except ValueError as error:
            raise CheckpointError(
                f"{checkpoint.path}: the optimiser state does not match: {error}; resume with the config of the run"
            ) from error
        self.load_state_dict(checkpoint.state["learner"])
        if self.reference is not None:
            self.reference.load_tensors(checkpoint.tensors("reference"))

    def require_fit(self, checkpoint: Checkpoint) -> None:
        """Raise an error unless the checkpoint has the same vocabulary, optimiser and reference as this learner.

        The check precedes loading, because a reordered vocabulary would load without an error.
        """
        saved: dict[str, str] = checkpoint.state["learner"].get("made_of", {})
        own = self.compatibility()
        if saved.get("vocabulary", own["vocabulary"]) != own["vocabulary"]:
            raise CheckpointError(
                f"{checkpoint.path} was written with a different vocabulary: model.scratch.vocabulary, the domain or "
                "the tokenizer has added, removed or reordered tokens since then. Resume with the vocabulary of the "
                "run, or start a new run"
            )
        if saved.get("optimiser", own["optimiser"]) != own["optimiser"]:
            raise CheckpointError(
                f"{checkpoint.path} was written with the optimiser {saved['optimiser']}; {own['optimiser']} cannot "
                "load its state. Resume with the optimiser.name of the run, or start a new run from its model: "
                f"--model.path {checkpoint.path / 'model'}"
            )
        self._require_reference(checkpoint)

    def compatibility(self) -> dict[str, str]:
        """Return the properties that a checkpoint must match, in addition to the names and shapes of the weights."""
        return {"optimiser": type(self.optimiser).__name__, "vocabulary": self.policy.vocabulary_digest}

    def _require_reference(self, checkpoint: Checkpoint) -> None:
        """Raise an error unless the checkpoint was written with the same reference policy."""
        if checkpoint.state["reference"] != self.reference_fingerprint():
            raise CheckpointError(
                f"{checkpoint.path} was written with a different reference policy: the base model has changed, or this "
                "version of torch initialises weights differently. Resume with the model and the versions of the run."
            )

    def reference_fingerprint(self) -> str | None:
        """Return the fingerprint of a reference that is rebuilt from the base model, or None if checkpoints save it."""
        reference = self.reference
        return reference.fingerprint() if reference is not None and not reference.tensors() else None

    def close(self) -> None:
        """Do nothing: this learner has no other processes."""

    def state_dict(self) -> dict[str, Any]:
        return {
            "skipped": self.skipped,
            "skipped_in_row": self.skipped_in_row,
            "adapted_kl": self.adapted_kl,
            "scaler": self.scaler.state_dict(),
            "made_of": self.compatibility(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.skipped, self.skipped_in_row = int(state["skipped"]), int(state["skipped_in_row"])
        self.adapted_kl = float(state["adapted_kl"])
        self.scaler.load_state_dict(state["scaler"])


def _idle(
    batches: Sequence[Sequence[LearnerSample]], weights: Sequence[Tensor]
) -> tuple[Sequence[LearnerSample], Tensor]:
    """Return a microbatch of weight 0: the shortest sample, which another rank trains on."""
    sample = batches[-1][-1]
    return [sample], torch.zeros_like(weights[-1][-len(sample.sample.decisions) :])


def _progress(report: Report, samples: int, steps: int) -> Callable[[int, int], None]:
    """Return a function of (optimiser step, samples) that reports progress after each microbatch."""
    done = 0

    def advance(step: int, count: int) -> None:
        nonlocal done
        done += count
        report(Activity("update", done, samples, f"minibatch {step}/{steps}" if steps > 1 else ""))

    return advance


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


def _mean_metrics(results: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Combine the metrics of the optimiser steps of a rollout, under their public names.

    Skipped steps are summed, ``*_max`` takes the maximum, and all others are averaged.
    """
    out = {"skipped": sum(result["skipped"] for result in results)}
    for name, public in METRIC_NAMES.items():
        values = [result[name] for result in results if name in result]
        if values:
            out[public] = max(values) if name.endswith("_max") else sum(values) / len(values)
    return out
