"""A run that begins with supervised training: its model is the one that comes out of it."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from steelyard import config as configs
from steelyard.algorithms.objective import Objective
from steelyard.algorithms.schedules import Schedule
from steelyard.algorithms.surrogates import surrogate
from steelyard.compose.supplied import build_domain
from steelyard.compose.tasks import check_beginning
from steelyard.config import Config, JudgeConfig, WarmstartConfig
from steelyard.domains.base import Exemplary
from steelyard.errors import ConfigError
from steelyard.folders import run_folder
from steelyard.policies.base import Policy
from steelyard.tracking.bars import counting
from steelyard.training.learner import Coefficients, Learner, UpdateRule
from steelyard.training.optimisers import build_optimiser
from steelyard.training.warmstart import loss_of, warm_start

LAST = 0.1
"""The learning rate at the end, as a share of that at the beginning."""
MADE_WITH = "made-with.json"
"""The settings of a warm start, in its folder."""


def own_folder(config: Config) -> Path:
    """Where a run keeps the model it began with."""
    return run_folder(config) / "warmstart"


def made_with(config: Config, warmstart: WarmstartConfig | None) -> str:
    """All settings that a warm start depends on, as the text that is kept with it."""
    tables = {
        "model": config.model,
        "domain": config.domain,
        "constraint": config.constraint,
        "optimiser": config.optimiser,
        "warmstart": warmstart,
    }
    plain = {name: None if table is None else table.model_dump(mode="json") for name, table in tables.items()}
    return json.dumps({"seed": config.run.seed, **plain}, indent=1, sort_keys=True) + "\n"


def clear_own(own: Path, table: WarmstartConfig | JudgeConfig | None, settings: str = "") -> None:
    """Before a new run: what an attempt that never became a run left there may have had other settings; a warm start
    that was made with the same is kept.
    """
    note = own / MADE_WITH
    if settings and note.is_file() and note.read_text(encoding="utf-8") == settings:
        return
    if table is not None and (table.folder is None or Path(table.folder).resolve() != own.resolve()):
        shutil.rmtree(own, ignore_errors=True)


def copy_model(named: Path, own: Path, key: str, command: str) -> None:
    """A model that is named becomes the run's own, which can then be moved and resumed by itself."""
    check_folder(named, key, command)
    written_beside(own, lambda folder: shutil.copytree(named, folder, dirs_exist_ok=True))


def check_folder(named: Path, key: str, command: str) -> None:
    """Refuse what is no folder of a model, before it is taken for the name of one on a hub."""
    if not any((named / file).is_file() for file in ("config.json", "adapter_config.json")):
        what = "is no model folder" if named.is_dir() else "is not there"
        raise ConfigError(f"{key}: {named} {what}; make it with `{command}`, or leave it out")


def make_warm_start(config: Config, warmstart: WarmstartConfig, policy: Policy, folder: Path) -> float:
    """Train ``policy``, which is fresh, on the domain's examples, and save it; gives the loss in nats a token, over the
    last tenth.
    """
    domain = build_domain(config)
    if not isinstance(domain, Exemplary):
        name = "a run without a domain" if domain is None else f"the domain {domain.name!r}"
        raise ConfigError(f"warmstart: {name} has no examples to begin from; remove [warmstart]")
    domain.verifier()  # what it cannot do without is better missed now than after minutes of training
    check_beginning(config, policy)
    steps = warmstart.updates
    learner = _learner(config, warmstart, policy, steps)
    examples, losses = domain.examples(seed=config.run.seed), list[float]()
    bar = counting("warm start", steps) if config.tracking.console else nullcontext(lambda *_: None)
    with bar as advance:
        for metrics in warm_start(learner, examples, steps=steps, batch=warmstart.batch):
            losses.append(loss_of(metrics))
            advance(f"{losses[-1]:.3f} nat a token")

    def write(place: Path) -> None:
        policy.save_pretrained(place)
        (place / MADE_WITH).write_text(made_with(config, warmstart), encoding="utf-8")

    written_beside(folder, write)
    return statistics.mean(losses[-max(1, steps // 10) :])


def beginning_with(config: Config, folder: Path) -> Config:
    """The configuration with the model (or the adapter) of a folder in place of a fresh one."""
    data = config.model_dump(exclude_none=True)
    if config.model.lora is not None:
        data["model"]["lora"]["adapter"] = str(folder)
    else:
        data["model"]["path"] = str(folder)
        data["model"].pop("scratch", None)
    return configs.build(data, source="warmstart")


def written_beside(folder: Path, write: Callable[[Path], object]) -> None:
    """Written beside its place and then moved into it, so that what is there is whole."""
    beside = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    write(beside)
    beside.rename(folder)


def _learner(config: Config, warmstart: WarmstartConfig, policy: Policy, steps: int) -> Learner:
    """Only the learning rate is the warm start's own; the rest is the run's."""
    optimiser = config.optimiser
    nothing = Schedule("constant", 0.0)
    lr = Schedule("cosine", warmstart.lr, LAST * warmstart.lr, steps, warmstart.warmup_steps)
    chosen = optimiser.model_dump(include={"betas", "eps", "weight_decay", "rounding"})
    settings: dict[str, Any] = chosen | {"seed": config.run.seed}
    trained = [parameter for _, parameter in policy.trainable()]
    comfortable = policy.comfortable_tokens()  # groups may want more at once; of single texts that is mostly padding
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
