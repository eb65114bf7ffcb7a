"""Build a run's trainer and trackers, for a new run or from a checkpoint."""

from __future__ import annotations

import logging
import platform
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from steelyard.checkpoint import Store
from steelyard.compose.cleanup import closed_on_error
from steelyard.compose.environments import with_episodes
from steelyard.compose.judge import copy_named_judge, judge_folder, make_judge
from steelyard.compose.learning import build_credit, build_learner
from steelyard.compose.pictures import build_picture
from steelyard.compose.policy import build_policy, never_sampled
from steelyard.compose.precision import resolve_dtype
from steelyard.compose.prompting import announce_prompting, describe_prompting
from steelyard.compose.sampling import build_decoding, build_evaluation_decoding, build_sampler
from steelyard.compose.supplied import NOTHING_SUPPLIED, Supplied, build_domain, build_tools, with_domain
from steelyard.compose.tasks import build_tasks, check_first_tasks, check_tasks
from steelyard.compose.verifier_code import verifier_code
from steelyard.compose.verifiers import build_pool, build_verifier
from steelyard.compose.warmstart import (
    check_folder,
    clear_stale,
    copy_model,
    make_warm_start,
    starting_from,
    warm_start_folder,
    warm_start_settings,
)
from steelyard.config import Config
from steelyard.data import Source
from steelyard.errors import CheckpointError, StoppedError
from steelyard.folders import keep_files, read_run_info, require_free, run_folder, write_config, write_run_info
from steelyard.policies.base import Policy
from steelyard.sampling.base import Closeable, Sampler
from steelyard.tracking import METRICS, ArtifactTracker, ChartTracker, ConsoleTracker, JsonlTracker, Tracker, Trackers
from steelyard.tracking.bars import stages
from steelyard.training.evaluation import Evaluator
from steelyard.training.learner import AnyLearner
from steelyard.training.loop import LoopSettings, Trainer
from steelyard.training.rollouts import AsynchronousRollouts, RolloutParts, Rollouts, SynchronousRollouts
from steelyard.types import Task
from steelyard.verification import Pool, load_function

log = logging.getLogger(__name__)

RunTasks = tuple[Source, list[Task]]
"""The source of training tasks and the evaluation tasks."""
POLICY_NOT_BUILT: Mapping[str, Any] = {"never_sampled": []}
"""Entries of ``run.json`` that are known before the policy is built."""


def prepare_start(config: Config, supplied: Supplied = NOTHING_SUPPLIED) -> Config:
    """Run the [warmstart] and train the [judge] unless already done; return the configuration of the first step.

    After a warm start, the configuration names the resulting model, and the judge is trained against it. A judge named
    in the configuration is copied first, so that a wrong path is reported early.
    """
    copy_named_judge(config)
    own = Supplied(domain=build_domain(config, supplied))  # the model is built from the configuration
    started = _after_warm_start(config, own)
    if config.judge is not None and not judge_folder(config).is_dir():
        make_judge(started, config.judge, _load_policy(started, own), judge_folder(config), own)
    return started


def _load_policy(config: Config, supplied: Supplied) -> Policy:
    with stages("loading the model", shown=config.tracking.console):
        return build_policy(config, supplied)


def _after_warm_start(config: Config, supplied: Supplied) -> Config:
    warmstart = config.warmstart
    if warmstart is None:
        return config
    own = warm_start_folder(config)
    if not own.is_dir() and warmstart.folder is not None:
        copy_model(Path(warmstart.folder), own, "warmstart.folder", "steelyard warmstart")
    elif not own.is_dir():
        make_warm_start(config, warmstart, _load_policy(config, supplied), own, supplied)
    check_folder(own, "warmstart.folder", "steelyard warmstart")
    return starting_from(config, own)


def build_any_learner(config: Config, policy: Policy, quarantine: Path) -> AnyLearner:
    """Build the learner in this process, or as a group of ranks ([cluster.learners]) mirrored by ``policy``."""
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
    """Build the evaluator; ``samples`` and ``ks`` override the configuration."""
    evaluate, decoding = config.evaluate, build_evaluation_decoding(config)
    return Evaluator(sampler, pool, tasks, decoding, samples=samples or evaluate.samples, ks=ks or evaluate.ks)


def build_trackers(config: Config, folder: Path, supplied: Supplied = NOTHING_SUPPLIED) -> Trackers:
    tracking = config.tracking
    trackers: list[Tracker] = [
        JsonlTracker(folder / METRICS),
        ArtifactTracker(folder / "artifacts", build_picture(build_domain(config, supplied))),
        ChartTracker(folder),
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


def build_trainer(config: Config, supplied: Supplied = NOTHING_SUPPLIED, tasks: RunTasks | None = None) -> Trainer:
    """Build all objects of a run. If an object cannot be built, those already open are closed.

    Only trackers write files, and only when they log. ``tasks``: the tasks of the run, if they have already been read.
    """
    supplied = with_domain(config, supplied)
    with ExitStack() as opened, stages("loading the model", shown=config.tracking.console) as stage:
        trainer = _build_trainer(resolve_dtype(config), supplied, tasks or build_tasks(config, supplied), opened, stage)
        trainer.opened = opened.pop_all()
    return trainer


def _build_trainer(
    config: Config, supplied: Supplied, tasks: RunTasks, opened: ExitStack, stage: Callable[[str], None]
) -> Trainer:
    folder, sampling = run_folder(config), config.sampling
    source, held_out = tasks
    policy = build_policy(config, supplied)
    evaluating = bool(config.evaluate.every and held_out)
    check_tasks(config, policy, getattr(source, "tasks", ()), held_out if evaluating else ())
    check_first_tasks(config, policy, supplied)
    stage("starting the verifier")
    verifier = build_verifier(config, supplied)
    pool = build_pool(config, verifier, supplied)
    opened.callback(pool.close)
    stage("starting the sampler")
    sampler = build_sampler(config, policy)
    if isinstance(sampler, Closeable):
        opened.callback(sampler.close)
    sampler, pool = with_episodes(config, policy, verifier, sampler, pool)
    stage("starting the learner")
    learner = build_any_learner(config, policy, folder / "artifacts")
    opened.callback(learner.close)
    stage("opening the trackers")
    tracker = build_trackers(config, folder, supplied)
    opened.callback(tracker.close)
    evaluator = build_evaluator(config, sampler, pool, held_out) if evaluating else None
    checkpoint = config.checkpoint
    best = checkpoint.best_metric or ("eval/success" if evaluator is not None else "reward/mean")
    credit = build_credit(config)
    rollouts = build_rollouts(
        config,
        RolloutParts(
            source=source,
            sampler=sampler,
            pool=pool,
            dead=credit.dead,
            tasks_per_step=sampling.tasks_per_step,
            group_size=sampling.group_size,
            decoding=build_decoding(config),
            refill_dead_groups=config.credit.refill_dead_groups,
        ),
    )
    opened.callback(rollouts.close)
    return Trainer(
        policy=policy,
        rollouts=rollouts,
        credit=credit,
        learner=learner,
        tracker=tracker,
        store=Store(folder / "checkpoints", keep_last=checkpoint.keep_last, best_mode=checkpoint.best_mode),
        settings=LoopSettings(
            steps=config.run.steps,
            evaluate_every=config.evaluate.every if evaluator is not None else 0,
            save_every=checkpoint.every,
            show_every=config.tracking.samples_every,
            best_metric=best,
        ),
        evaluator=evaluator,
    )


def build_rollouts(config: Config, parts: RolloutParts) -> Rollouts:
    """Build asynchronous rollouts if sampling.staleness is set, otherwise synchronous ones."""
    if staleness := config.sampling.staleness:
        return AsynchronousRollouts(parts, steps=config.run.steps, staleness=staleness)
    return SynchronousRollouts(parts)


def start_run(config: Config, supplied: Supplied = NOTHING_SUPPLIED) -> Trainer:
    """Start a new run in its own folder."""
    folder, config = run_folder(config), resolve_dtype(config)
    require_free(folder)
    supplied = with_domain(config, supplied)
    tasks = check_inputs(config, supplied)
    clear_stale(warm_start_folder(config), config.warmstart, warm_start_settings(config, config.warmstart, supplied))
    clear_stale(judge_folder(config), config.judge)
    try:
        started = prepare_start(config, supplied)
    except StoppedError:
        _write_run_files(folder, config, supplied)  # from here on, the run can be resumed
        raise
    trainer = build_trainer(started, supplied, tasks)
    with closed_on_error(trainer):
        policy_info = {"never_sampled": never_sampled(trainer.policy), "prompts": describe_prompting(trainer.policy)}
        _write_run_files(folder, config, supplied, policy_info)
        _announce_prompts(config, trainer)
        trainer.tracker.rewind(-1)  # show the display before the first evaluation and step
    return trainer


def check_inputs(config: Config, supplied: Supplied) -> RunTasks:
    """Import the verifier and the tools, and read the tasks.

    Called before any model is downloaded, loaded or warm-started, so that a wrong path is reported within seconds.
    """
    verify = config.verify
    if supplied.verifier is None:
        for path in filter(None, (verify.verifier, *(entry.function for entry in verify.verifiers))):
            load_function(path)
    build_tools(config, supplied)
    with stages("reading the tasks", shown=config.tracking.console):
        return build_tasks(config, supplied)


def _announce_prompts(config: Config, trainer: Trainer) -> None:
    announce_prompting(config, trainer.policy, getattr(trainer.parts.source, "tasks", ()))


def _write_run_files(
    folder: Path, config: Config, supplied: Supplied, policy_info: Mapping[str, Any] = POLICY_NOT_BUILT
) -> None:
    """Write the files that make a folder a run: its configuration, its tasks, and ``run.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    info = {
        "id": uuid.uuid4().hex,
        "versions": _versions(),
        "python": platform.python_version(),
        "supplied": list(config.run.supplied),
        "verifier_code": verifier_code(config, supplied),
        **policy_info,
    }
    keep_files(folder, supplied.files)
    write_run_info(folder, info)
    write_config(folder, config)


def _report_changed_code(folder: Path, config: Config, supplied: Supplied) -> None:
    """Warn if the verifier's code has changed, because rewards may not be comparable."""
    info, code = read_run_info(folder), verifier_code(config, supplied)
    before = info.get("verifier_code", code)
    changed = sorted(name for name in before.keys() | code.keys() if before.get(name) != code.get(name))
    if changed:
        log.warning(
            "the verifier's code has changed since the run was last trained (%s): rewards before and after may not be "
            "comparable, and the run is not an exact continuation",
            ", ".join(changed),
        )
    write_run_info(folder, {**info, "verifier_code": code})


def resume_run(config: Config, supplied: Supplied = NOTHING_SUPPLIED) -> Trainer:
    """Resume a run from its newest complete checkpoint, or from its start if none was written.

    ``config`` becomes the configuration of the run.
    """
    config, supplied = resolve_dtype(config), with_domain(config, supplied)
    tasks = check_inputs(config, supplied)
    trainer = build_trainer(prepare_start(config, supplied), supplied, tasks)
    with closed_on_error(trainer):
        checkpoint = trainer.store.latest()
        if checkpoint is None and trainer.store.skipped:
            raise CheckpointError(
                f"{run_folder(config)} has no complete checkpoint ({'; '.join(trainer.store.skipped)}); to start "
                "over, choose another run.folder or remove this one"
            )
        _announce_prompts(config, trainer)
        if checkpoint is None:
            trainer.tracker.rewind(-1)
        else:
            trainer.restore(checkpoint)
        _report_changed_code(run_folder(config), config, supplied)
        keep_files(run_folder(config), supplied.files)
        write_config(run_folder(config), config, trainer.step)
    return trainer


def _versions() -> dict[str, str]:
    versions: dict[str, str] = {}
    for package in ("steelyard", "torch", "transformers", "peft", "safetensors", "numpy", "bitsandbytes"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
