"""Read artifacts from files and open their domain, for `verify`, `render`, `export` and `report`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steelyard.commands.inputs.target import read_named_run
from steelyard.config import Config
from steelyard.config.overrides import apply_overrides, parse_overrides
from steelyard.domains.base import Domain
from steelyard.domains.registry import domain_names, is_domain, make_domain
from steelyard.errors import ConfigError, DataError
from steelyard.folders import NAMED_BY, run_at
from steelyard.suggest import did_you_mean
from steelyard.trust import DOMAIN

WHERE = "DOMAIN|RUN"
WHERE_HELP = "the domain of the file (a name or module:Class), or a run folder whose domain to use"
STDIN = "-"
OPTIONS = "domain.options."


def open_domain(where: str, overrides: Sequence[str], *, trust: bool) -> Domain:
    """Open a domain by name or import path, or open a run's domain with the run's options."""
    if is_domain(where):
        return make_domain(where, **_domain_options(overrides))
    if (found := run_at(Path(where))) is None:
        hint = did_you_mean(where, domain_names())
        raise ConfigError(f"{where} is neither a domain ({', '.join(domain_names())}) nor a run folder{hint}")
    others = [part for part in NAMED_BY if part != "domain"]
    return domain_of_run(read_named_run(found[0], overrides, trust=trust, uses=DOMAIN, unused=others))


def domain_of_run(config: Config) -> Domain:
    if config.domain is None:
        raise ConfigError(
            f"{config.run.name} has no domain, so its samples cannot be rendered or summarised; `steelyard sample RUN` "
            "prints them as text, and `steelyard eval RUN` measures reward and success"
        )
    return make_domain(config.domain.name, **config.domain.options)


def known_domains() -> str:
    return f"domains: {', '.join(domain_names())}; your own as module:Class"


def read_artifact(path: str) -> str:
    """Read text from a file, or from stdin for ``-``."""
    if path == STDIN:
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file (working directory: {Path.cwd()})") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text: {error}") from None


def artifact_name(path: str) -> str:
    """Name an artifact after its file."""
    return "stdin" if path == STDIN else Path(path).stem


def json_object(text: str, option: str) -> dict[str, Any]:
    """Parse a JSON object from the command line."""
    try:
        value: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{option} is not JSON: {error}") from None
    except RecursionError:
        raise ConfigError(f"{option} is nested too deeply; flatten it") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{option} must be a JSON object, got {text}")
    return value


def _domain_options(overrides: Sequence[str]) -> Mapping[str, Any]:
    named = parse_overrides(overrides)
    for key in named:
        if not key.startswith(OPTIONS):
            raise ConfigError(f"--{key}: without a run, only domain options can be set, as --{OPTIONS}name value")
    return apply_overrides({"domain": {"options": {}}}, named)["domain"]["options"]
