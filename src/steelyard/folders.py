"""Run folders: where a run lives, how its configuration is kept. Imports no torch, so mistakes show at once."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steelyard import config as configs
from steelyard.config import Config
from steelyard.errors import CheckpointError, ConfigError
from steelyard.trust import remember_run

NAMED_BY = {
    "model": ("model.path", "model.scratch"),
    "tasks": ("tasks.file", "tasks.dataset", "tasks.prompts"),
    "eval_tasks": ("tasks.eval_file", "tasks.held_out"),
    "verifier": ("verify.verifier", "verify.verifiers"),
    "constraint": ("constraint",),
}
"""Keys that name what a run can also be given as Python objects (``run.supplied``)."""


def run_folder(config: Config) -> Path:
    return Path(config.run.folder) / config.run.name


def require_free(folder: Path) -> None:
    """A new run never writes into the folder of another."""
    if (folder / "config.toml").exists():
        raise ConfigError(
            f"{folder} holds a run already: go on with it by `{resume_command(folder)}`, "
            f"or choose another name with --run.name"
        )


def resume_command(folder: Path) -> str:
    return f"steelyard train --resume {shlex.quote(str(folder))}"


def write_config(folder: Path, config: Config, step: int = 0) -> None:
    """Keep the configuration that holds after ``step``. One that held until then and was another stays beside it, as
    ``config-until-step-00000120.toml``; where the folder is and was is no difference.
    """
    remember_run(folder, config)
    path, text = folder / "config.toml", configs.dump(config)
    if path.exists():
        before = path.read_text(encoding="utf-8")
        place = {key: value for key, value in tomllib.loads(before)["run"].items() if key in ("folder", "name")}
        text = configs.dump(config.model_copy(update={"run": config.run.model_copy(update=place)}))
        if text == before:
            return
        held = folder / f"config-until-step-{step:08d}.toml"
        if not held.exists():  # else what is there now was tried and came to no checkpoint
            held.write_text(before, encoding="utf-8")
    beside = folder / ".config.toml.writing"
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def read_run(folder: Path, overrides: Sequence[str] | Mapping[str, Any] = ()) -> Config:
    """The configuration of a run folder, wherever the folder has been moved to."""
    path = folder / "config.toml"
    if not path.is_file():
        raise CheckpointError(f"{folder} is no run folder: it has no config.toml")
    data = configs.load(path, overrides).model_dump(exclude_none=True)
    place = folder.resolve()
    data["run"] |= {"folder": str(place.parent), "name": place.name}
    return configs.build(data, source=str(path))
