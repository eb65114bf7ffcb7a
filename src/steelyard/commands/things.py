"""Things in files, and the workshop that knows them: what `verify`, `render` and `export` share."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steelyard.config import Config
from steelyard.config.overrides import apply_overrides, parse_overrides
from steelyard.domains.base import Domain, WithWorkshop, Workshop, workshop_of
from steelyard.domains.registry import domain_paths, domains_with, make_domain
from steelyard.errors import ConfigError, DataError
from steelyard.folders import read_run, run_at
from steelyard.suggest import did_you_mean
from steelyard.trust import DOMAIN, require_trusted_run

WHERE = "DOMAIN|RUN"
WHERE_HELP = "the domain of the file, or a run: its domain with its options"
STDIN = "-"
OPTIONS = "domain.options."


def open_workshop(where: str, overrides: Sequence[str], *, trust: bool) -> Workshop:
    """The workshop of a domain by name, or of a run's domain with the options it has there."""
    if where in domain_paths():
        return require_workshop(open_domain(where, overrides, trust=trust))
    return require_workshop(domain_of_run(_config_of(where, overrides, trust=trust)))


def open_domain(where: str, overrides: Sequence[str], *, trust: bool) -> Domain:
    """A domain by name, or a run's domain with the options it has there."""
    if where in domain_paths():
        return make_domain(where, **_domain_options(overrides))
    config = _config_of(where, overrides, trust=trust)
    if config.domain is None:
        raise ConfigError(f"{config.run.name} has no domain")
    return make_domain(config.domain.name, **config.domain.options)


def _config_of(where: str, overrides: Sequence[str], *, trust: bool) -> Config:
    found = run_at(Path(where))
    if found is None:
        known = domain_paths()
        hint = did_you_mean(where, known)
        raise ConfigError(f"{where} is neither a domain ({', '.join(sorted(known))}) nor a run folder{hint}")
    config = read_run(found[0], overrides)
    require_trusted_run(found[0], config, parse_overrides(overrides), uses=DOMAIN, trust=trust)
    return config


def domain_of_run(config: Config) -> Domain:
    if config.domain is None:
        raise ConfigError(
            f"{config.run.name} has no domain, so nothing draws its samples ({drawing_domains()}); `steelyard sample "
            "RUN` shows them as text"
        )
    return make_domain(config.domain.name, **config.domain.options)


def read_thing(path: str) -> str:
    """The text of a file, or of stdin for ``-``."""
    if path == STDIN:
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file (looked in {Path.cwd()})") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as text: {error}") from None


def name_of(path: str) -> str:
    """What to call the thing of a file."""
    return "stdin" if path == STDIN else Path(path).stem


def form_of(path: Path, known: Sequence[str], option: str) -> str:
    """The form that a file's name asks for by its ending."""
    form = path.suffix.removeprefix(".").lower()
    if form not in known:
        endings = ", ".join(f".{name}" for name in known)
        raise ConfigError(f"{option} {path}: the ending says what to write, one of {endings}")
    return form


def write_file(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}; choose another place") from None


def json_object(text: str, option: str) -> dict[str, Any]:
    """A JSON object from the command line."""
    try:
        value: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{option} is not JSON: {error}") from None
    except RecursionError:
        raise ConfigError(f"{option} is nested too deeply; flatten it") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{option} must be a JSON object, got {text}")
    return value


def require_workshop(domain: Domain) -> Workshop:
    workshop = workshop_of(domain)
    if workshop is None:
        raise ConfigError(
            f"domain {domain.name} has no pictures and no exports ({drawing_domains()}); `steelyard sample RUN` shows "
            "its samples as text"
        )
    return workshop


def drawing_domains() -> str:
    return f"domains with pictures and exports: {', '.join(domains_with(WithWorkshop))}"


def _domain_options(overrides: Sequence[str]) -> Mapping[str, Any]:
    named = parse_overrides(overrides)
    for key in named:
        if not key.startswith(OPTIONS):
            raise ConfigError(f"--{key}: without a run only options of the domain can be set, as --{OPTIONS}name value")
    return apply_overrides({"domain": {"options": {}}}, named)["domain"]["options"]
