"""Load configurations from recipes, files and overrides, and write them to run folders."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from steelyard.config.nesting import DEEPEST, too_deep
from steelyard.config.overrides import apply_overrides, parse_overrides
from steelyard.config.problems import config_error, problems_of
from steelyard.config.root import Config
from steelyard.config.rules.adjustments import adjusted
from steelyard.config.schema import known_keys
from steelyard.errors import ConfigError
from steelyard.suggest import did_you_mean

log = logging.getLogger(__name__)


def load(recipe_or_path: str | Path, overrides: Sequence[str] | Mapping[str, Any] = ()) -> Config:
    """Load a shipped recipe (by name) or a TOML file, and apply dotted overrides.

    ``overrides`` are command-line words (``["--run.steps", "50"]``) or a mapping (``{"run.steps": 50}``).
    """
    dotted = dict(overrides) if isinstance(overrides, Mapping) else parse_overrides(overrides)
    return build(apply_overrides(read_tables(recipe_or_path), dotted), source=str(recipe_or_path))


def build(data: Mapping[str, Any], *, source: str = "configuration") -> Config:
    """Build a configuration from nested tables.

    All problems are reported together in a single ``ConfigError``. Warm-ups that are too long for the run are
    shortened, with a warning.
    """
    try:
        config = Config.model_validate(data, context={"source": source})
    except ValidationError as error:
        raise config_error(source, problems_of(error, known_keys())) from None
    config, notices = adjusted(config)
    for notice in notices:
        log.warning("%s: %s", source, notice)
    return config


def dump(config: Config) -> str:
    """Write the resolved configuration as TOML; loading it gives an equal configuration."""
    return tomli_w.dumps(config.model_dump(exclude_none=True))


def recipes() -> tuple[str, ...]:
    """Return the names of the shipped recipes."""
    folder = files("steelyard") / "recipes"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def read_tables(recipe_or_path: str | Path) -> dict[str, Any]:
    """Read the tables of a shipped recipe or a file, without validating them."""
    try:
        tables = tomllib.loads(read_recipe(recipe_or_path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{recipe_or_path}: not valid TOML: {error}") from error
    except RecursionError:
        tables = None
    if tables is None or too_deep(tables):
        raise ConfigError(f"{recipe_or_path}: nested more than {DEEPEST} levels deep; flatten it")
    return tables


def read_recipe(recipe_or_path: str | Path) -> str:
    """Read the TOML text of a shipped recipe or a file."""
    name = str(recipe_or_path)
    if name in recipes():
        return (files("steelyard") / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
    path = Path(recipe_or_path)
    if path.is_file():
        return path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        raise ConfigError(f"there is no file {name} (working directory: {Path.cwd()})")
    known = ", ".join(recipes())
    raise ConfigError(
        f"there is no recipe {name!r}{did_you_mean(name, recipes())} (recipes: {known}; or pass a .toml file)"
    )
