"""Build the credit, objective and learner, in this process or as a group of ranks."""

from __future__ import annotations

from pathlib import Path

from steelyard import defaults
from steelyard.algorithms.advantages import estimator
from steelyard.algorithms.kl import AdaptiveKL
from steelyard.algorithms.objective import Objective
from steelyard.algorithms.schedules import Schedule
from steelyard.algorithms.surrogates import surrogate
from steelyard.compose.policy import build_reference_of
from steelyard.config import Config, ScheduleConfig
from steelyard.config.loss import AdaptiveKlConfig
from steelyard.policies.base import Policy
from steelyard.policies.reference import Reference
from steelyard.training.credit import Credit, LengthPenalty
from steelyard.training.learner import Coefficients, Learner, UpdateRule
from steelyard.training.optimisers import build_optimiser
from steelyard.training.ranks import SINGLE_PROCESS, Ranks


def build_credit(config: Config) -> Credit:
    credit, penalty = config.credit, config.credit.length_penalty
    penalised = credit.truncation_penalty if credit.truncation_penalty is not None else defaults.TRUNCATION_PENALTY
    rule = None
    if penalty is not None:
        limit = penalty.limit or config.sampling.max_new_tokens
        rule = LengthPenalty(limit, limit - penalty.start, penalty.weight)
    return Credit(
        estimator=estimator(credit.advantage, credit.k),
        gamma=credit.gamma,
        clip=credit.advantage_clip,
        truncated=credit.truncated,
        truncation_penalty=penalised,
        length_penalty=rule,
        min_scored=credit.min_scored,
        per=credit.per,
    )


def build_objective(config: Config, reference: Reference | None) -> Objective:
    loss = config.loss
    chosen = surrogate(loss.surrogate, **loss.surrogate_options())
    in_loss = reference is not None and loss.kl.placement == "loss"
    return Objective(chosen, loss.kl.estimator if in_loss else None, _importance_cap(config))


def _importance_cap(config: Config) -> float | None:
    """Return the cap on importance weights.

    By default, samples from another engine (which rounds differently) or from older weights are corrected.
    """
    cap, sampling = config.loss.importance_cap, config.sampling
    if cap is None and (sampling.engine != "local" or sampling.staleness):
        return defaults.IMPORTANCE_CAP
    return cap or None


def schedule(table: ScheduleConfig, steps: int) -> Schedule:
    return Schedule(table.kind, table.start, table.end or 0.0, table.steps or steps, table.warmup)


def build_adaptive_kl(config: Config, adaptive: AdaptiveKlConfig) -> AdaptiveKL:
    """Build the adaptive KL coefficient.

    The default horizon scales with the number of samples per step, so that it also suits small steps.
    """
    samples = config.sampling.tasks_per_step * config.sampling.group_size
    return AdaptiveKL(adaptive.target, adaptive.horizon or defaults.KL_HORIZON_STEPS * samples)


def build_rule(config: Config, policy: Policy) -> UpdateRule:
    optimiser, loss = config.optimiser, config.loss
    return UpdateRule(
        epochs=optimiser.epochs,
        minibatches=optimiser.minibatches,
        microbatch_tokens=optimiser.microbatch_tokens or policy.default_microbatch_tokens(),
        aggregation=loss.aggregation,
        constant_length=loss.constant_length or config.sampling.max_new_tokens,
        grad_clip=optimiser.grad_clip or None,
        max_skipped=optimiser.max_skipped,
        seed=config.run.seed,
    )


def build_learner(
    config: Config, policy: Policy, quarantine: Path | None = None, ranks: Ranks = SINGLE_PROCESS
) -> Learner:
    """Build a learner with its reference, optimiser and objective, standalone or as one of several ranks."""
    loss, optimiser, steps = config.loss, config.optimiser, config.run.steps
    reference, rule = build_reference_of(config, policy), build_rule(config, policy)
    ranks.shard(policy, reference)
    lr, adaptive = optimiser.lr, loss.kl.adaptive
    coefficients = Coefficients(
        lr=Schedule(optimiser.schedule, lr, lr * optimiser.min_lr_ratio, steps, optimiser.warmup_steps),
        kl=schedule(loss.kl.coefficient, steps),
        entropy=schedule(loss.entropy.coefficient, steps),
        adaptive=None if adaptive is None else build_adaptive_kl(config, adaptive),
    )
    engine = build_optimiser(
        optimiser.name,
        [parameter for _, parameter in policy.trainable()],
        lr=lr,
        betas=optimiser.betas,
        eps=optimiser.eps,
        weight_decay=optimiser.weight_decay,
        rounding=optimiser.rounding,
        seed=config.run.seed,
        grouped=ranks.grouped,
    )
    objective = build_objective(config, reference)
    in_reward = reference is not None and loss.kl.placement == "reward"
    return Learner(
        policy,
        engine,
        objective,
        coefficients,
        rule,
        reference=reference,
        kl_in_reward=in_reward,
        quarantine=quarantine,
        ranks=ranks,
    )
