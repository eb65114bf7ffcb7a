"""Warm start: supervised training before the first step, which produces the run's initial model."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from steelyard import config as configs
from steelyard.algorithms.objective import Objective
from steelyard.algorithms.schedules import Schedule
from steelyard.algorithms.surrogates import surrogate
from steelyard.checkpoint import Store
from steelyard.checkpoint.manifest import require_intact, seal
from steelyard.compose.supplied import NOTHING_SUPPLIED, Supplied, build_domain
from steelyard.compose.tasks import check_first_tasks
from steelyard.config import Config, JudgeConfig, WarmstartConfig
from steelyard.domains.base import examples_of
from steelyard.errors import CheckpointError, ConfigError, StoppedError
from steelyard.folders import run_folder
from steelyard.policies.base import Policy
from steelyard.tracking.bars import progress_bar
from steelyard.training.learner import Coefficients, Learner, UpdateRule
from steelyard.training.optimisers import build_optimiser
from steelyard.training.stopping import StopRequest, stopping_on_signals
from steelyard.training.warmstart import loss_of, warm_start

LAST = 0.1
"""Final learning rate, as a fraction of the peak."""
MADE_WITH = "made-with.json"
"""File in a warm start's folder that stores its settings."""


def warm_start_folder(config: Config) -> Path:
    """Return the folder of the model produced by a run's warm start."""
    return run_folder(config) / "warmstart"


def warm_start_settings(
    config: Config, warmstart: WarmstartConfig | None, supplied: Supplied = NOTHING_SUPPLIED
) -> str:
    """Serialise all settings that a warm start depends on; the result is stored with its model."""
    tables = {
        "model": config.model,
        "domain": config.domain,
        "constraint": config.constraint,
        "optimiser": config.optimiser,
        "warmstart": warmstart,
    }
    plain: dict[str, Any] = {
        name: None if table is None else table.model_dump(mode="json") for name, table in tables.items()
    }
    if config.tasks is not None:  # [tasks] only sets how prompts are sent; examples come from the domain
        plain["tasks"] = config.tasks.model_dump(mode="json", exclude={"source"})
    if "domain" in config.run.supplied:
        plain["domain"] = {"object": f"{type(supplied.domain).__module__}:{type(supplied.domain).__qualname__}"}
    return json.dumps({"seed": config.run.seed, **plain}, indent=1, sort_keys=True) + "\n"


def clear_stale(own: Path, table: WarmstartConfig | JudgeConfig | None, settings: str = "") -> None:
    """Remove a warm start or judge left behind by a failed attempt to start the run: its settings may differ.

    A warm start with the same settings is kept.
    """
    note = own / MADE_WITH
    if settings and note.is_file() and note.read_text(encoding="utf-8") == settings:
        return
    if table is not None and (table.folder is None or Path(table.folder).resolve() != own.resolve()):
        shutil.rmtree(own, ignore_errors=True)


def copy_model(named: Path, own: Path, key: str, command: str) -> None:
    """Copy a named model into the run folder, so that the run can be moved and resumed without the original."""
    check_folder(named, key, command)
    write_atomically(own, lambda folder: shutil.copytree(named, folder, dirs_exist_ok=True))


def check_folder(named: Path, key: str, command: str) -> None:
    """Raise if ``named`` is not a model folder or its files have changed; otherwise it would be treated as a hub id."""
    if not any((named / file).is_file() for file in ("config.json", "adapter_config.json")):
        what = "is not a model folder" if named.is_dir() else "does not exist"
        raise ConfigError(f"{key} = {named} {what}; create it with `{command}`, or remove the key")
    require_intact(named, f"restore it from a copy, or create another with `{command}` for a new run")


def make_warm_start(
    config: Config, warmstart: WarmstartConfig, policy: Policy, folder: Path, supplied: Supplied = NOTHING_SUPPLIED
) -> float:
    """Train the new ``policy`` on the domain's examples and save it to ``folder``.

    Return the loss in nats per token over the last tenth of updates. A signal stops training after the current update
    and saves its state next to ``folder``; with the same settings, training continues from there, bit for bit.
    """
    domain = build_domain(config, supplied)
    examples = examples_of(domain, "warmstart", seed=config.run.seed)
    if domain is not None:
        domain.verifier()  # report a missing extra now, not after minutes of training
    check_first_tasks(config, policy, supplied)
    steps, settings = warmstart.updates, warm_start_settings(config, warmstart, supplied)
    learner = _learner(config, warmstart, policy, steps)
    progress = Store(folder.with_name(f".{folder.name}.progress"), keep_last=1)
    losses = _resumed(learner, progress, settings)
    updates = warm_start(learner, examples, steps=steps, batch=warmstart.batch, done=len(losses))
    shown = config.tracking.console
    bar = progress_bar("warm start", steps - len(losses), "update") if shown else nullcontext(lambda *_: None)
    stop = StopRequest()
    with stopping_on_signals(stop.request, "update"), bar as advance:
        for metrics in updates:
            losses.append(loss_of(metrics))
            advance(f"{losses[-1]:.3f} nats per token")
            if stop.requested:
                break
    if len(losses) < steps:
        _keep(learner, progress, settings, losses)
        raise StoppedError(f"stopped during the warm start, after update {len(losses)} of {steps}; its state is saved.")

    def write(place: Path) -> None:
        policy.save_pretrained(place)
        (place / MADE_WITH).write_text(settings, encoding="utf-8")

    write_atomically(folder, write)
    shutil.rmtree(progress.folder, ignore_errors=True)
    if stop.requested:
        raise StoppedError("stopped after the warm start; its model is saved.")
    return statistics.mean(losses[-max(1, steps // 10) :])


def _resumed(learner: Learner, progress: Store, settings: str) -> list[float]:
    """Restore an interrupted warm start with the same settings, and return the losses of its updates."""
    checkpoint = progress.latest()
    if checkpoint is None or checkpoint.state["warm_start_settings"] != settings:
        return []
    learner.restore(checkpoint)
    return list(checkpoint.state["losses"])


def _keep(learner: Learner, progress: Store, settings: str, losses: list[float]) -> None:
    parts = learner.checkpoint_parts()
    state = {**parts.state, "warm_start_settings": settings, "losses": losses}
    progress.save(len(losses), folders=parts.folders, tensors=parts.tensors, state=state)


def starting_from(config: Config, folder: Path) -> Config:
    """Return the configuration with the model (or adapter) in ``folder`` instead of a new one."""
    data = config.model_dump(exclude_none=True)
    if config.model.lora is not None:
        data["model"]["lora"]["adapter"] = str(folder)
    else:
        data["model"]["path"] = str(folder)
        data["model"].pop("scratch", None)
    return configs.build(data, source="warmstart")


def write_atomically(folder: Path, write: Callable[[Path], object]) -> None:
    """Write a folder atomically: write to a temporary folder, add a manifest, then rename it to ``folder``."""
    temporary = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        write(temporary)
        seal(temporary, step=0, score=None)
        temporary.rename(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise CheckpointError(
            f"{folder} could not be written: {error}. Free space there or make it writable, then run the command again"
        ) from error


def _learner(config: Config, warmstart: WarmstartConfig, policy: Policy, steps: int) -> Learner:
    """Build the learner for a warm start. Only the learning rate differs from the run's optimiser settings."""
    optimiser = config.optimiser
    nothing = Schedule("constant", 0.0)
    lr = Schedule("cosine", warmstart.lr, LAST * warmstart.lr, steps, warmstart.warmup_steps)
    chosen = optimiser.model_dump(include={"betas", "eps", "weight_decay", "rounding"})
    settings: dict[str, Any] = chosen | {"seed": config.run.seed}
    trained = [parameter for _, parameter in policy.trainable()]
    comfortable = (
        policy.default_microbatch_tokens()
    )  # larger batches suit groups; for single texts, they would be mostly padding
    return Learner(
        policy,
        build_optimiser(optimiser.name, trained, lr=warmstart.lr, **settings),
        Objective(surrogate("reinforce")),
        Coefficients(lr, nothing, nothing),
        UpdateRule(
            microbatch_tokens=min(optimiser.microbatch_tokens or comfortable, comfortable),
            aggregation="token_mean",
            grad_clip=optimiser.grad_clip or None,
            max_skipped=optimiser.max_skipped,
        ),
    )
