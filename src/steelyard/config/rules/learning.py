"""Rules for the objective, reference, optimiser, evaluation and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from steelyard.config.problems import Problem
from steelyard.defaults import CLIP_RANGES

if TYPE_CHECKING:
    from steelyard.config.sections import Sections


def surrogate(config: Sections) -> Iterator[Problem]:
    loss, name = config.loss, config.loss.surrogate
    for key in ("clip_low", "clip_high"):
        value = getattr(loss, key)
        if value is not None and name not in CLIP_RANGES:
            solution = "; use loss.ratio_cap" if name == "cispo" else "; remove it"
            yield Problem(f"loss.{key}", value, f"surrogate = '{name}' has no clip range{solution}")
    if loss.ratio_cap is not None and name != "cispo":
        yield Problem("loss.ratio_cap", loss.ratio_cap, f"applies only to surrogate = 'cispo', not '{name}'; remove it")
    if loss.dual_clip is not None and name != "ppo_clip":
        yield Problem(
            "loss.dual_clip", loss.dual_clip, f"applies only to surrogate = 'ppo_clip', not '{name}'; remove it"
        )


def aggregation(config: Sections) -> Iterator[Problem]:
    loss = config.loss
    if loss.surrogate == "gspo" and loss.aggregation != "sequence_mean":
        reason = (
            "gspo has one ratio per sequence, so every sequence must have the same weight regardless of its length; "
            "use aggregation = 'sequence_mean' or another surrogate"
        )
        yield Problem("loss.aggregation", loss.aggregation, reason)
    if loss.constant_length is not None and loss.aggregation != "constant":
        reason = f"applies only to aggregation = 'constant', but aggregation is '{loss.aggregation}'; remove it"
        yield Problem("loss.constant_length", loss.constant_length, reason)


def kl(config: Sections) -> Iterator[Problem]:
    term = config.loss.kl
    if term.estimator == "k1" and term.placement == "loss":
        reason = (
            "the expected gradient of k1 in the loss is zero, so the penalty would have no effect; "
            "use k2, k3_unbiased or exact, or placement = 'reward'"
        )
        yield Problem("loss.kl.estimator", term.estimator, reason)
    if term.placement == "reward" and term.estimator != "k1":
        reason = "in the reward, only k1 gives an unbiased gradient; use estimator = 'k1' or placement = 'loss'"
        yield Problem("loss.kl.estimator", term.estimator, reason)
    if term.adaptive is None:
        return
    if term.coefficient.kind != "constant" or term.coefficient.warmup:
        reason = "an adaptive coefficient cannot follow a schedule; set a number to start from"
        yield Problem("loss.kl.coefficient", term.coefficient.kind, reason)
    elif term.coefficient.start == 0:
        reason = "the adaptive rule multiplies the coefficient, which would stay at 0; start above 0, such as 0.05"
        yield Problem("loss.kl.coefficient", 0, reason)


def schedules(config: Sections) -> Iterator[Problem]:
    for key, schedule in (
        ("loss.kl.coefficient", config.loss.kl.coefficient),
        ("loss.entropy.coefficient", config.loss.entropy.coefficient),
    ):
        if schedule.kind != "constant" and schedule.end is None:
            yield Problem(f"{key}.end", None, f"is required by kind = '{schedule.kind}'")
        if schedule.kind == "constant" and schedule.end is not None:
            reason = "a constant has no end; remove it, or set kind to linear or cosine"
            yield Problem(f"{key}.end", schedule.end, reason)
        if schedule.steps is not None and schedule.warmup >= schedule.steps:
            reason = f"must be smaller than {key}.steps ({schedule.steps}); lower it or raise steps"
            yield Problem(f"{key}.warmup", schedule.warmup, reason)


def reference_mode(config: Sections) -> Iterator[Problem]:
    reference = config.reference
    for key, mode, example in (("ema_decay", "ema", 0.99), ("every", "periodic", 100)):
        value = getattr(reference, key)
        if value is None and reference.mode == mode:
            yield Problem(f"reference.{key}", None, f"is required by mode = '{mode}', for example {example}")
        if value is not None and reference.mode != mode:
            reason = f"applies only to mode = '{mode}', but mode is '{reference.mode}'; remove it"
            yield Problem(f"reference.{key}", value, reason)
    if reference.mode != "static" and not config.loss.kl.active:
        reason = "the reference is not used while loss.kl.coefficient is 0; raise it, or remove mode"
        yield Problem("reference.mode", reference.mode, reason)


def reference_storage(config: Sections) -> Iterator[Problem]:
    reference, lora = config.reference, config.model.lora
    storage = reference.storage
    if storage in ("adapter_off", "adapter") and lora is None:
        reason = "there is no adapter; add the table model.lora, or use storage = 'copy'"
        yield Problem("reference.storage", storage, reason)
    if storage == "adapter_off" and reference.mode != "static":
        reason = (
            f"the model without its adapter never changes, so it cannot be mode = '{reference.mode}'; use 'adapter'"
        )
        yield Problem("reference.storage", storage, reason)
    if storage == "adapter_off" and lora is not None and (lora.adapter is not None or config.warmstart is not None):
        reason = (
            "training starts from a trained adapter, so the model without it is not the initial model; use 'adapter'"
        )
        yield Problem("reference.storage", storage, reason)
    if reference.device == "cpu" and storage in ("adapter_off", "adapter"):
        reason = f"storage = '{storage}' shares the policy's weights and device; remove device, or use storage = 'copy'"
        yield Problem("reference.device", reference.device, reason)


def updates(config: Sections) -> Iterator[Problem]:
    optimiser = config.optimiser
    updates_per_rollout = optimiser.epochs * optimiser.minibatches
    if config.loss.surrogate == "reinforce" and updates_per_rollout > 1:
        reason = (
            f"reinforce has no ratio, so only the first of {updates_per_rollout} updates per rollout would be correct; "
            "set optimiser.epochs and optimiser.minibatches to 1, or use ppo_clip"
        )
        yield Problem("loss.surrogate", "reinforce", reason)
    samples = config.sampling.tasks_per_step * config.sampling.group_size
    if optimiser.minibatches > samples:
        yield Problem(
            "optimiser.minibatches", optimiser.minibatches, f"must not exceed the {samples} samples of a step; lower it"
        )
    if not all(0 <= beta < 1 for beta in optimiser.betas):
        yield Problem("optimiser.betas", list(optimiser.betas), "both must be at least 0 and less than 1")


def rounding(config: Sections) -> Iterator[Problem]:
    model, chosen = config.model, config.optimiser.rounding
    if chosen == "stochastic":
        return
    if model.lora is not None:
        yield Problem(
            "optimiser.rounding", chosen, "adapters are float32, so their updates are not rounded; remove the key"
        )
    elif model.dtype != "bfloat16":
        reason = f"applies only to bfloat16 weights, and model.dtype is '{model.dtype}'; remove it"
        yield Problem("optimiser.rounding", chosen, reason)


def learner_group(config: Sections) -> Iterator[Problem]:
    learners, model = config.cluster.learners, config.model
    if learners is None:
        return
    if learners.offload and learners.sharding != "fsdp":
        reason = "applies only to sharding = 'fsdp'; remove it"
        yield Problem("cluster.learners.offload", learners.offload, reason)
    if model.quantize is not None and learners.sharding == "fsdp":
        reason = "quantised weights cannot be sharded over ranks; use cluster.learners.sharding = 'ddp'"
        yield Problem("model.quantize", model.quantize, reason)
    for key in ("dtype", "autocast"):
        if getattr(model, key) == "float16":
            reason = "learners on a cluster do not support loss scaling; use bfloat16"
            yield Problem(f"model.{key}", "float16", reason)
    if "model" in config.run.supplied:
        reason = "a model passed from Python cannot be sent to the ranks; save it and set model.path"
        yield Problem("cluster.learners", learners.ranks, reason)
    if "domain" in config.run.supplied:
        reason = "a domain passed from Python cannot be sent to the ranks; set domain.name = 'module:Class'"
        yield Problem("cluster.learners", learners.ranks, reason)


def evaluation(config: Sections) -> Iterator[Problem]:
    evaluate, tasks = config.evaluate, config.tasks
    if min(evaluate.ks) < 1 or max(evaluate.ks) > evaluate.samples:
        reason = f"pass@k needs 1 <= k <= evaluate.samples ({evaluate.samples}); raise evaluate.samples"
        yield Problem("evaluate.ks", list(evaluate.ks), reason)
    separate = config.has_domain or "eval_tasks" in config.run.supplied
    held_out = tasks is not None and (tasks.held_out > 0 or tasks.eval_file is not None)
    if evaluate.every and not separate and not held_out:
        reason = "no tasks are held out from training; set tasks.held_out or tasks.eval_file"
        yield Problem("evaluate.every", evaluate.every, reason)


def checkpoints(config: Sections) -> Iterator[Problem]:
    metric = config.checkpoint.best_metric
    if metric is not None and metric.startswith("eval/") and config.evaluate.every == 0:
        reason = "the run has no evaluation; set evaluate.every, or choose a training metric such as reward/mean"
        yield Problem("checkpoint.best_metric", metric, reason)
