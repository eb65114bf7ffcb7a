"""The target of a command such as `eval` or `sample`: a run, one of its checkpoints, or a model with a recipe."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard import config as configs
from steelyard.config import Config
from steelyard.config.overrides import apply_overrides, parse_overrides
from steelyard.defaults import CHECKPOINT
from steelyard.errors import ConfigError
from steelyard.folders import NAMED_BY, START, read_run, run_at, run_table
from steelyard.trust import SAMPLING, require_trusted_recipe, require_trusted_run

if TYPE_CHECKING:
    from steelyard.compose import OpenedPolicy, Supplied


@dataclass(frozen=True, slots=True)
class Target:
    """A model and its configuration."""

    config: Config
    run: Path | None = None
    checkpoint: str = START
    """``latest``, ``best``, a step number, or ``start`` for the model before training."""


def add_target(
    parser: argparse.ArgumentParser,
    metavar: str = "RUN|MODEL",
    what: str = "a run folder, or a model's folder or hub id",
) -> None:
    parser.add_argument("target", metavar=metavar, help=what)
    parser.add_argument(
        "--checkpoint",
        default=CHECKPOINT,
        metavar="WHICH",
        help="checkpoint of a run: latest, best, a step number, or start for the model before training "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--recipe", metavar="RECIPE|FILE", help="for a model: recipe that provides the tasks and the verifier"
    )
    add_trust(parser)


def add_trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust", action="store_true", help="allow running code referenced by someone else's run or recipe"
    )


def resolve(arguments: argparse.Namespace, overrides: Sequence[str], *, unused: Collection[str] = ()) -> Target:
    """Find the run, or the model and recipe, named by the arguments, without loading weights.

    ``unused``: parts (keys of ``NAMED_BY``) that the command does not need; code named only by them needs no trust.
    """
    found = run_at(Path(arguments.target))
    if found is None:
        if not (Path(arguments.target).exists() or arguments.recipe or overrides or getattr(arguments, "prompt", None)):
            raise ConfigError(
                f"{arguments.target}: no such run or model; for a model on the hub, pass a recipe that provides the "
                "tasks and the verifier: --recipe RECIPE"
            )
        named = parse_overrides(overrides)
        uses = _sections_used(unused)
        return Target(_model_config(arguments.target, arguments.recipe, named, uses=uses, trust=arguments.trust))
    if arguments.recipe is not None:
        raise ConfigError(f"{arguments.target} is a run and has its own configuration; remove --recipe")
    run, step = found
    config = read_named_run(run, overrides, trust=arguments.trust, uses=_sections_used(unused), unused=unused)
    return Target(config, run, step or arguments.checkpoint)


def _sections_used(unused: Collection[str]) -> Collection[str]:
    sections = {"verifier": "verify", "tasks": "tasks"}
    return SAMPLING - {sections[part] for part in unused if part in sections}


def read_named_run(
    run: Path,
    overrides: Sequence[str],
    *,
    trust: bool,
    uses: Collection[str] = SAMPLING,
    unused: Collection[str] = (),
) -> Config:
    """Read a run's configuration, after checking that the code it names is trusted.

    Parts that were passed as Python objects must be named by overrides, except for ``unused`` parts.
    """
    named = parse_overrides(overrides)
    path = run / "config.toml"
    if path.is_file():
        supplied = run_table(run).get("supplied", [])
        missing = _unnamed(supplied, named)
        needed = [part for part in missing if part not in unused]
        if needed and needed != ["eval_tasks"]:
            keys = " ".join(f"--{NAMED_BY[part][0]} …" for part in needed)
            given = ", ".join(f"{part}=…" for part in needed)
            raise ConfigError(
                f"{run} was started from Python with a {' and a '.join(needed)} that no other process can import; "
                f"specify it on the command line ({keys}), or use steelyard.open_run({str(run)!r}, {given}) in Python"
            )
        named["run.supplied"] = missing
    config = read_run(run, named)
    require_trusted_run(run, config, named, uses=uses, trust=trust)
    return config


def open_policy(target: Target, supplied: Supplied) -> OpenedPolicy:
    """Load the model with the checkpoint's weights."""
    from steelyard.compose import open_policy as opened

    return opened(target.config, target.run, target.checkpoint, supplied)


def _model_config(
    name: str, recipe: str | None, named: Mapping[str, Any], *, uses: Collection[str], trust: bool
) -> Config:
    if Path(name).is_dir() and not any(
        (Path(name) / file).is_file() for file in ("config.json", "adapter_config.json")
    ):
        raise ConfigError(
            f"{name} is neither a run (it has no config.toml) nor a model (it has no config.json); pass "
            "the folder of one"
        )
    model = {"model.scratch": None, "model.lora": None, "model.quantize": None} | _model_keys(name)
    if recipe is not None:
        config = configs.load(recipe, {**named, **model})
        require_trusted_recipe(recipe, config, named, uses=uses, trust=trust)
        return config
    data = {"run": {"supplied": _unnamed(("tasks", "verifier"), named)}}
    return configs.build(apply_overrides(data, {**named, **model}), source=name)


def _unnamed(parts: Sequence[str], named: Mapping[str, Any]) -> list[str]:
    """Return the parts that are not named by any of the given keys."""
    return [part for part in parts if not any(key.startswith(NAMED_BY[part]) for key in named)]


def _model_keys(name: str) -> dict[str, Any]:
    adapter = Path(name) / "adapter_config.json"
    if not adapter.is_file():
        return {"model.path": name}
    base = json.loads(adapter.read_text(encoding="utf-8"))["base_model_name_or_path"]
    return {"model.path": base, "model.lora": {"adapter": name}}
