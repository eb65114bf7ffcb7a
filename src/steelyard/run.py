"""Running a whole training run, from Python or from the command line."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from steelyard import config as configs
from steelyard.compose import Supplied, resume_run, start_run
from steelyard.config import Config
from steelyard.config.schema import keys_named
from steelyard.errors import ConfigError, LostLearnerError
from steelyard.folders import NAMED_BY, RunLock, run_folder
from steelyard.quiet import quiet_engines
from steelyard.training.loop import Trainer
from steelyard.trust import TRAINING, require_trusted_recipe

log = logging.getLogger(__name__)

LOST_IN_VAIN = 3
"""How often a learner may be lost in a row without coming further than before."""


def run(config: Config, supplied: Supplied, *, resume: bool) -> Trainer:
    """Start or resume a run, and train it to its end. No other process can train in the same folder meanwhile."""
    with RunLock(run_folder(config)) as lock:
        return run_holding(lock, config, supplied, resume=resume)


def run_holding(lock: RunLock, config: Config, supplied: Supplied, *, resume: bool) -> Trainer:
    """Start or resume, train, and close what is open whatever happens. A run that has lost a process of its learner
    goes on from its last checkpoint by itself, unless it was asked to stop, or that happens again and again without
    coming further than before.
    """
    with quiet_engines():
        trainer: Trainer | None = (resume_run if resume else start_run)(config, supplied)
        furthest, in_vain = trainer.step, 0
        while True:
            try:
                trainer = trainer or resume_run(config, supplied)
                trainer.before_writing = lock.require_in_place
                with closing(trainer):
                    trainer.train()
                return trainer
            except LostLearnerError as error:
                step = furthest if trainer is None else trainer.step
                in_vain = 0 if step > furthest else in_vain + 1
                furthest = max(furthest, step)
                if in_vain >= LOST_IN_VAIN or (trainer is not None and trainer.stopping):
                    raise
                log.warning("step %d: %s", step, error)
                trainer = None  # before the next one is built: there may be no room for two


def train_from_python(
    parts: Mapping[str, Any],
    recipe: str | Path | Mapping[str, Any] | None,
    sections: Mapping[str, Mapping[str, Any]],
    *,
    resume: bool,
    trust: bool = False,
) -> Trainer:
    """``steelyard.train``: what can be named in the configuration is; the rest is handed over as objects."""
    data: dict[str, Any] = _tables(recipe)
    objects: dict[str, Any] = {}
    for name, part in parts.items():
        if part is None:
            continue
        _forget(data, NAMED_BY[name])
        if (named := _as_keys(name, part)) is None:
            objects[name] = part
        else:
            _lay_over(data, *named)
    for section, table in sections.items():
        _lay_over(data, section, table)
    _lay_over(data, "run", {"supplied": sorted(objects)})
    config = configs.build(data, source="steelyard.train")
    if isinstance(recipe, str | Path):
        given = [key for name, part in parts.items() if part is not None for key in NAMED_BY[name]]
        given += [f"{section}.{key}" for section, table in sections.items() for key in table]
        require_trusted_recipe(recipe, config, given, uses=TRAINING, trust=trust)
    exists = (run_folder(config) / "config.toml").exists()
    return run(config, Supplied(**objects), resume=resume and exists)


def _forget(data: dict[str, Any], keys: Sequence[str]) -> None:
    """What is handed over stands in for what the recipe names."""
    for key in keys:
        section, _, name = key.partition(".")
        if not name:
            data.pop(section, None)
        elif section in data:
            data[section] = {other: value for other, value in data[section].items() if other != name}


def _lay_over(data: dict[str, Any], section: str, table: Mapping[str, Any]) -> None:
    data[section] = {**data.get(section, {}), **_table(section, table)}


def _as_keys(name: str, part: Any) -> tuple[str, Mapping[str, Any]] | None:
    """(section, keys) of a part that the configuration can name, so that the run folder says it all; else nothing."""
    if isinstance(part, Mapping) and name in ("model", "tasks", "constraint"):
        return name, part
    if not isinstance(part, str | Path) or name == "constraint":
        return None
    if name == "tasks" and str(part).startswith("hf:"):
        return "tasks", {"dataset": str(part).removeprefix("hf:")}
    section, _, key = NAMED_BY[name][0].partition(".")
    return section, {key: str(part)}


def _tables(recipe: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    if recipe is None:
        return {}
    if isinstance(recipe, Mapping):
        return {name: _table(name, table) for name, table in recipe.items()}
    return configs.read_tables(recipe)


def _table(name: str, table: Any) -> dict[str, Any]:
    """A table of the configuration, handed over as a mapping."""
    if isinstance(table, Mapping):
        return dict(cast("Mapping[str, Any]", table))
    if keys := [key.split(".") for key in keys_named(name)]:
        ways = " or ".join(f'{section}={{"{key}": {table!r:.80}}}' for section, key in keys)
        raise ConfigError(f"{name} = {table!r:.80} is not a section of the configuration; did you mean {ways}?")
    section, _, key = name.partition(".")
    raise ConfigError(f"{name} = {table!r:.80} is no table; write {{{section!r}: {{{key or 'key'!r}: {table!r:.80}}}}}")
