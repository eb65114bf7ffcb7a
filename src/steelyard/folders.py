"""Run folders: where a run lives and how its configuration is read back. Imports no torch, so mistakes show at once."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steelyard import config as configs
from steelyard.config import Config
from steelyard.errors import CheckpointError, ConfigError

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


def read_run(folder: Path, overrides: Sequence[str] | Mapping[str, Any] = ()) -> Config:
    """The configuration of a run folder, wherever the folder has been moved to."""
    path = folder / "config.toml"
    if not path.is_file():
        raise CheckpointError(f"{folder} is no run folder: it has no config.toml")
    data = configs.load(path, overrides).model_dump(exclude_none=True)
    place = folder.resolve()
    data["run"] |= {"folder": str(place.parent), "name": place.name}
    return configs.build(data, source=str(path))
