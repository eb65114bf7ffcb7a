"""From a configuration to the objects of a run. The only place that knows every package."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import torch

from steelyard import config as configs
from steelyard.algorithms.advantages import estimator
from steelyard.algorithms.kl import AdaptiveKL
from steelyard.algorithms.objective import Objective
from steelyard.algorithms.schedules import Schedule
from steelyard.algorithms.surrogates import surrogate
from steelyard.checkpoint import Checkpoint, Store, open_checkpoint
from steelyard.compose.checking import build_pool, build_trial_pool, build_verifier
from steelyard.compose.constraint import build_constraint, check_budgets
from steelyard.compose.judge import own_judge, require_judge
from steelyard.compose.pictures import build_picture
from steelyard.compose.sampling import build_decoding, build_sampler
from steelyard.compose.supplied import NOTHING, Supplied, build_domain
from steelyard.compose.warmstart import beginning_with, clear_own, copy_model, make_warm_start, own_folder
from steelyard.config import Config, ScheduleConfig
from steelyard.data import Source, as_source, as_tasks, domain_source, domain_tasks, load_tasks, split
from steelyard.domains.base import Split
from steelyard.errors import CheckpointError, ConfigError
from steelyard.folders import require_free, run_folder
from steelyard.policies.adapters import Lora
from steelyard.policies.base import Policy
from steelyard.policies.loading import PolicyOptions, from_scratch_policy, pretrained_policy
from steelyard.policies.reference import Ema, Periodic, Reference, Renewal, build_reference, static
from steelyard.policies.scratch import Architecture
from steelyard.sampling.base import Decoding, Sampler
from steelyard.tracking import ArtifactTracker, ConsoleTracker, JsonlTracker, Tracker, Trackers
from steelyard.training.ahead import Ahead
from steelyard.training.credit import Credit, LengthPenalty
from steelyard.training.evaluation import Evaluator
from steelyard.training.learner import AnyLearner, Coefficients, Learner, UpdateRule
from steelyard.training.loop import Plan, Trainer
from steelyard.training.optimisers import build_optimiser
from steelyard.training.ranks import ALONE, Ranks
from steelyard.types import CutRule, Task
from steelyard.verification import Pool

__all__ = [
    "NOTHING",
    "Supplied",
    "begun",
    "build_any_learner",
    "build_constraint",
    "build_credit",
    "build_decoding",
    "build_domain",
    "build_evaluator",
    "build_learner",
    "build_objective",
    "build_policy",
    "build_pool",
    "build_reference_of",
    "build_rule",
    "build_sampler",
    "build_tasks",
    "build_trackers",
    "build_trainer",
    "build_trial_pool",
    "build_verifier",
    "check_budgets",
    "divided_tasks",
    "find_checkpoint",
    "resume_run",
    "schedule",
    "start_run",
    "tasks_of_split",
]

IMPORTANCE_CAP = 2.0
"""Where the correction for samples of another engine or of older weights is capped, if nothing else is said."""


# --- policy ----------------------------------------------------------------------------------------------------------


def build_policy(config: Config, supplied: Supplied = NOTHING) -> Policy:
    """The policy at the start of the run, with its constraint."""
    policy = supplied.model if isinstance(supplied.model, Policy) else build_model(config)
    constraint = build_constraint(config, policy, supplied)
    policy.constraint = policy.constraint if constraint is None else constraint
    return policy


def begun(config: Config) -> Config:
    """The configuration that the first step begins from: after a [warmstart], which is made unless it is there, its
    model is what came out of it. A [judge] is trained against that model.
    """
    started = _after_warm_start(config)
    if config.judge is not None and not own_judge(config).is_dir():
        require_judge(started, build_policy(started))
    return started


def _after_warm_start(config: Config) -> Config:
    warmstart = config.warmstart
    if warmstart is None:
        return config
    own = own_folder(config)
    if not own.is_dir() and warmstart.folder is not None:
        copy_model(Path(warmstart.folder), own, "warmstart.folder", "steelyard warmstart")
    elif not own.is_dir():
        make_warm_start(config, warmstart, build_policy(config), own)
    return beginning_with(config, own)


def build_model(config: Config) -> Policy:
    """The policy that the configuration names, without a constraint."""
    if config.model.threads is not None:
        torch.set_num_threads(config.model.threads)
    model, lora = config.model, config.model.lora
    options = PolicyOptions(
        kind=model.kind,
        dtype=model.dtype,
        autocast=model.autocast,
        device=model.device,
        attention=model.attention,
        gradient_checkpointing=model.gradient_checkpointing,
        quantize=model.quantize,
        chunk=model.chunk_tokens,
        trust_remote_code=model.trust_remote_code,
        lora=None if lora is None else Lora(lora.rank, lora.alpha, lora.targets),
        adapter=None if lora is None else lora.adapter,
        seed=config.run.seed,
    )
    if model.path is not None:
        return pretrained_policy(model.path, options)
    if model.scratch is None:
        raise ConfigError("model: give either path or scratch")
    scratch, domain = model.scratch, build_domain(config)
    words = scratch.vocabulary or (domain.vocabulary() if domain is not None else None)
    if words is None:
        raise ConfigError("model.scratch.vocabulary is empty and there is no domain with a vocabulary of its own")
    shape = scratch.model_dump(exclude={"architecture", "vocabulary", "spaced"})
    return from_scratch_policy(Architecture(**shape), words, options, spaced=scratch.spaced)


def build_reference_of(config: Config, policy: Policy) -> Reference | None:
    """The reference, if KL is used at all."""
    kl, reference = config.loss.kl, config.reference
    if not kl.coefficient.ever_positive and kl.adaptive is None:
        return None
    renewal: Renewal = static
    if reference.mode == "ema" and reference.ema_decay is not None:
        renewal = Ema(reference.ema_decay)
    if reference.mode == "periodic" and reference.every is not None:
        renewal = Periodic(reference.every)
    device = torch.device("cpu") if reference.device == "cpu" else None
    return build_reference(policy, _carrier(config), renewal, device)


def _carrier(config: Config) -> str:
    """``auto``: a copy without LoRA or off the device; the adapter switched off if it was fresh; else a second one."""
    reference, lora = config.reference, config.model.lora
    if reference.carrier != "auto":
        return reference.carrier
    if lora is None or reference.device == "cpu":
        return "copy"
    return "adapter_off" if reference.mode == "static" and lora.adapter is None else "adapter"


# --- tasks -----------------------------------------------------------------------------------------------------------


def build_tasks(config: Config, supplied: Supplied = NOTHING) -> tuple[Source, list[Task]]:
    """Where training tasks come from, and the tasks for evaluation (may be empty)."""
    seed, wanted = config.run.seed, config.evaluate.tasks
    domain = build_domain(config)
    if domain is not None:
        return domain_source(domain, "train", seed=seed), domain_tasks(domain, "validation", wanted)
    held_out = as_tasks(supplied.eval_tasks) if supplied.eval_tasks is not None else []
    tasks = config.tasks
    if isinstance(supplied.tasks, Source):
        if tasks is not None and tasks.held_out:
            raise ConfigError(
                "tasks.held_out cannot divide a Source, which draws its tasks itself; hand over eval_tasks instead"
            )
        return supplied.tasks, held_out[:wanted]
    rows, listed = divided_tasks(tasks, supplied.tasks)
    return as_source(rows, seed=seed, shuffle=tasks is None or tasks.shuffle), (listed or held_out)[:wanted]


def divided_tasks(tasks: configs.TasksConfig | None, given: Any = None) -> tuple[list[Task], list[Task]]:
    """(training, held-out) tasks, listed by the [tasks] table or ``given``; the second is empty unless asked for."""
    if tasks is None:
        if given is None:
            raise ConfigError("there are no tasks: give [tasks] or [domain]")
        return as_tasks(given), []
    rows = _listed_tasks(tasks) if given is None else as_tasks(given, prompt_column=tasks.prompt_column)
    if tasks.eval_file is not None:
        return rows, load_tasks(tasks.eval_file, prompt_column=tasks.prompt_column)
    if tasks.held_out:
        return split(rows, tasks.held_out if tasks.held_out < 1 else int(tasks.held_out), seed=0)
    return rows, []


def tasks_of_split(config: Config, name: Split, count: int | None = None) -> list[Task]:
    """The first tasks of one split. A [tasks] table has two: what is not ``train`` is held out."""
    domain = build_domain(config)
    if domain is not None:
        if not (found := domain_tasks(domain, name, count)):
            raise ConfigError(f"the domain {domain.name!r} has no task in the split {name!r} with these options")
        return found
    training, held_out = divided_tasks(config.tasks)
    found = training if name == "train" else held_out
    if not found:
        raise ConfigError(
            "no tasks are held out: set tasks.held_out (a number or a share) or tasks.eval_file, "
            "or take the training tasks with --split train"
        )
    return found[:count]


def _listed_tasks(tasks: configs.TasksConfig) -> list[Task]:
    if tasks.prompts is not None:
        return as_tasks(tasks.prompts[: tasks.limit])
    where = tasks.file if tasks.file is not None else f"hf:{tasks.dataset}"
    return load_tasks(
        where, prompt_column=tasks.prompt_column, split=tasks.split, subset=tasks.subset, limit=tasks.limit
    )


# --- algorithm -------------------------------------------------------------------------------------------------------


def build_credit(config: Config) -> Credit:
    credit, penalty = config.credit, config.credit.length_penalty
    rule = None
    if penalty is not None:
        limit = penalty.limit or config.sampling.max_new_tokens
        rule = LengthPenalty(limit, limit - penalty.start, penalty.weight)
    return Credit(
        estimator=estimator(credit.advantage, credit.k),
        gamma=credit.gamma,
        clip=credit.advantage_clip,
        truncated=credit.truncated,
        truncation_penalty=1.0 if credit.truncation_penalty is None else credit.truncation_penalty,
        length_penalty=rule,
        min_scored=credit.min_scored,
    )


def build_objective(config: Config, reference: Reference | None) -> Objective:
    loss = config.loss
    chosen = surrogate(loss.surrogate, **loss.surrogate_options())
    in_loss = reference is not None and loss.kl.placement == "loss"
    return Objective(chosen, loss.kl.estimator if in_loss else None, _importance_cap(config))


def _importance_cap(config: Config) -> float | None:
    """Another engine is another policy by its rounding, and older weights are another one: their samples are corrected
    unless told otherwise.
    """
    cap, sampling = config.loss.importance_cap, config.sampling
    if cap is None and (sampling.engine != "local" or sampling.staleness):
        return IMPORTANCE_CAP
    return cap or None


def schedule(table: ScheduleConfig, steps: int) -> Schedule:
    return Schedule(table.kind, table.start, table.end or 0.0, table.steps or steps, table.warmup)


def build_rule(config: Config, policy: Policy) -> UpdateRule:
    optimiser, loss = config.optimiser, config.loss
    return UpdateRule(
        epochs=optimiser.epochs,
        minibatches=optimiser.minibatches,
        microbatch_tokens=optimiser.microbatch_tokens or policy.comfortable_tokens(),
        aggregation=loss.aggregation,
        constant_length=loss.constant_length or config.sampling.max_new_tokens,
        grad_clip=optimiser.grad_clip or None,
        max_skipped=optimiser.max_skipped,
        seed=config.run.seed,
    )


def build_learner(config: Config, policy: Policy, quarantine: Path | None = None, ranks: Ranks = ALONE) -> Learner:
    """The learner with its reference, optimiser and objective, by itself or as one of several ranks."""
    loss, optimiser, steps = config.loss, config.optimiser, config.run.steps
    reference, rule = build_reference_of(config, policy), build_rule(config, policy)
    ranks.shard(policy, reference)
    lr, adaptive = optimiser.lr, loss.kl.adaptive
    coefficients = Coefficients(
        lr=Schedule(optimiser.schedule, lr, lr * optimiser.min_lr_ratio, steps, optimiser.warmup_steps),
        kl=schedule(loss.kl.coefficient, steps),
        entropy=schedule(loss.entropy.coefficient, steps),
        adaptive=None if adaptive is None else AdaptiveKL(adaptive.target, adaptive.horizon),
    )
    engine = build_optimiser(
        optimiser.name,
        [parameter for _, parameter in policy.trainable()],
        lr=lr,
        betas=optimiser.betas,
        eps=optimiser.eps,
        weight_decay=optimiser.weight_decay,
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


def build_any_learner(config: Config, policy: Policy, quarantine: Path) -> AnyLearner:
    """The learner in this process, or with [cluster.learners] a group of ranks whose weights ``policy`` mirrors."""
    if config.cluster.learners is None:
        return build_learner(config, policy, quarantine)
    from steelyard.compose.ranks import build_learner_group

    return build_learner_group(config, policy, quarantine)


def build_evaluator(
    config: Config,
    sampler: Sampler,
    pool: Pool,
    tasks: list[Task],
    *,
    samples: int | None = None,
    ks: Sequence[int] | None = None,
) -> Evaluator:
    """The evaluation that the configuration describes; ``samples`` and ``ks`` stand in for its own."""
    evaluate, decoding = config.evaluate, build_decoding(config)
    rule = decoding.rule
    if evaluate.temperature is not None:
        rule = CutRule(evaluate.temperature, rule.top_k, rule.top_p, rule.min_p)
    decoding = Decoding(rule, evaluate.max_new_tokens or decoding.max_new_tokens, decoding.supports)
    count = samples or evaluate.samples
    return Evaluator(sampler, pool, tasks, decoding, samples=count, ks=ks or evaluate.ks)


def build_trackers(config: Config, folder: Path) -> Trackers:
    tracking = config.tracking
    trackers: list[Tracker] = [
        JsonlTracker(folder / "metrics.jsonl"),
        ArtifactTracker(folder / "artifacts", build_picture(config)),
    ]
    if tracking.console:
        trackers.append(ConsoleTracker(config.run.steps, title=config.run.name))
    if tracking.tensorboard:
        from steelyard.tracking.tensorboard import TensorBoardTracker

        trackers.append(TensorBoardTracker(folder / "tensorboard"))
    if tracking.wandb:
        from steelyard.tracking.wandb import WandbTracker

        plain = config.model_dump(mode="json")
        trackers.append(WandbTracker(folder, project=tracking.wandb_project, name=config.run.name, config=plain))
    return Trackers(trackers)


# --- the run ---------------------------------------------------------------------------------------------------------


def build_trainer(config: Config, supplied: Supplied = NOTHING) -> Trainer:
    """All objects of a run, at its start; nothing is written yet but by trackers when they log."""
    folder, sampling = run_folder(config), config.sampling
    policy = build_policy(config, supplied)
    source, held_out = build_tasks(config, supplied)
    check_budgets(policy.constraint, [*held_out, *getattr(source, "tasks", ())], sampling.max_new_tokens)
    pool = build_pool(config, build_verifier(config, supplied))
    sampler = build_sampler(config, policy)
    evaluating = bool(config.evaluate.every and held_out)
    evaluator = build_evaluator(config, sampler, pool, held_out) if evaluating else None
    checkpoint = config.checkpoint
    best = checkpoint.best_metric or ("eval/success" if evaluator is not None else "reward/mean")
    plan = Plan(
        steps=config.run.steps,
        tasks_per_step=sampling.tasks_per_step,
        group_size=sampling.group_size,
        decoding=build_decoding(config),
        refill_dead_groups=config.credit.refill_dead_groups,
        evaluate_every=config.evaluate.every if evaluator is not None else 0,
        save_every=checkpoint.every,
        show_every=config.tracking.samples_every,
        best_metric=best,
    )
    credit = build_credit(config)
    ahead = Ahead(source, sampler, pool, credit, plan, staleness=sampling.staleness) if sampling.staleness else None
    return Trainer(
        policy=policy,
        source=source,
        sampler=sampler,
        pool=pool,
        credit=credit,
        learner=build_any_learner(config, policy, folder / "artifacts"),
        tracker=build_trackers(config, folder),
        store=Store(folder / "checkpoints", keep_last=checkpoint.keep_last, best_mode=checkpoint.best_mode),
        plan=plan,
        evaluator=evaluator,
        ahead=ahead,
    )


def start_run(config: Config, supplied: Supplied = NOTHING) -> Trainer:
    """A new run in a folder of its own."""
    folder = run_folder(config)
    require_free(folder)
    clear_own(own_folder(config), config.warmstart)
    clear_own(own_judge(config), config.judge)
    trainer = build_trainer(begun(config), supplied)
    folder.mkdir(parents=True, exist_ok=True)
    about = {"versions": _versions(), "python": platform.python_version(), "supplied": list(config.run.supplied)}
    (folder / "run.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    (folder / "config.toml").write_text(configs.dump(config), encoding="utf-8")
    trainer.tracker.rewind(-1)  # shows the panel before the first evaluation and step
    return trainer


def resume_run(config: Config, supplied: Supplied = NOTHING) -> Trainer:
    """A run taken up at its newest whole checkpoint, or from its start if none was written yet."""
    trainer = build_trainer(begun(config), supplied)
    checkpoint = trainer.store.latest()
    if checkpoint is None and trainer.store.skipped:
        raise CheckpointError(
            f"no checkpoint of {run_folder(config)} is whole ({'; '.join(trainer.store.skipped)}); to begin anew, "
            "choose another run.folder or remove this one"
        )
    if checkpoint is None:
        trainer.tracker.rewind(-1)
    else:
        trainer.restore(checkpoint)
    return trainer


def find_checkpoint(run: Path, which: str = "latest", best_mode: Literal["max", "min"] = "max") -> Checkpoint:
    """``latest``, ``best``, or a step number of a run."""
    store = Store(run / "checkpoints", best_mode=best_mode)
    if which.isdigit():
        if int(which) not in store.steps():
            raise CheckpointError(f"{run} has no checkpoint of step {which}; it has {_listed(store.steps())}")
        return open_checkpoint(store.folder / f"step-{int(which):08d}")
    if which not in ("latest", "best"):
        raise CheckpointError(
            f"there is no checkpoint {which!r}: use latest, best, or a step of {_listed(store.steps())}"
        )
    found = store.best() if which == "best" else store.latest()
    if found is None:
        raise CheckpointError(f"{run} has no whole checkpoint ({'; '.join(store.skipped) or 'none was written'})")
    return found


def _listed(steps: list[int]) -> str:
    return ", ".join(map(str, steps)) or "none"


def _versions() -> dict[str, str]:
    versions: dict[str, str] = {}
    for package in ("steelyard", "torch", "transformers", "peft", "safetensors", "numpy", "bitsandbytes"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
