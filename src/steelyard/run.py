"""Running a whole training run, from Python or from the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steelyard import config as configs
from steelyard.compose import Supplied, resume_run, start_run
from steelyard.config import Config
from steelyard.folders import run_folder
from steelyard.quiet import quiet_engines
from steelyard.training.loop import Trainer


def run(config: Config, supplied: Supplied, *, resume: bool) -> Trainer:
    """Start or resume, train, and close the trackers whatever happens."""
    with quiet_engines():
        trainer = (resume_run if resume else start_run)(config, supplied)
        try:
            trainer.train()
        finally:
            trainer.pool.close()
            trainer.tracker.close()
        return trainer


def train_from_python(
    parts: Mapping[str, Any],
    recipe: str | Path | Mapping[str, Any] | None,
    sections: Mapping[str, Mapping[str, Any]],
    *,
    resume: bool,
) -> Trainer:
    """``steelyard.train``: what can be named in the configuration is; the rest is handed over as objects."""
    data: dict[str, Any] = _tables(recipe)
    objects = {name: part for name, part in parts.items() if part is not None}
    if isinstance(objects.get("model"), str | Path):
        data["model"] = {**data.get("model", {}), "path": str(objects.pop("model"))}
    for section, table in sections.items():
        data[section] = {**data.get(section, {}), **table}
    data["run"] = {**data.get("run", {}), "supplied": sorted(objects)}
    config = configs.build(data, source="steelyard.train")
    exists = (run_folder(config) / "config.toml").exists()
    return run(config, Supplied(**objects), resume=resume and exists)


def _tables(recipe: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    if recipe is None:
        return {}
    if isinstance(recipe, Mapping):
        return {name: dict(table) for name, table in recipe.items()}
    return tomllib.loads(configs.read_recipe(recipe))
