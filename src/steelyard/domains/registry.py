"""The registry of domains, which are built in, registered in this process, provided by installed packages (entry point
group ``steelyard.domains``), or named by import path.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from steelyard.config.removed import renamed_option
from steelyard.domains.base import Domain
from steelyard.errors import ConfigError
from steelyard.import_paths import is_import_path, load_object, load_user_object
from steelyard.suggest import nearest_or_all
from steelyard.text import shown

GROUP = "steelyard.domains"
BUILT_IN = {
    "arithmetic": "steelyard.domains.arithmetic:Arithmetic",
    "bricks": "steelyard.domains.bricks.domain:Bricks",
    "bricks-repair": "steelyard.domains.bricks.repair:BricksRepair",
    "guess": "steelyard.domains.guess:Guess",
    "infill": "steelyard.domains.infill:Infill",
    "sequences": "steelyard.domains.sequences:Sequences",
    "theories": "steelyard.domains.theories.domain:Theories",
}
_registered: dict[str, type[Domain]] = {}


def register(name: str, domain: type[Domain]) -> None:
    """Register a domain in this process so that ``[domain] name = "mine"`` finds it."""
    if name in BUILT_IN or is_import_path(name):
        raise ConfigError(f"domain name {name!r} is built in or an import path; choose another name")
    _registered[name] = _require_domain(domain, name)


def domain_names() -> list[str]:
    """Return the names of all known domains."""
    return sorted({*_installed(), *_registered, *BUILT_IN})


def is_domain(name: str) -> bool:
    """Return whether a string is the name or import path of a domain."""
    return name in domain_names() or is_import_path(name)


def make_domain(name: str, **parameters: Any) -> Domain:
    """Build a domain from its name or import path and its parameters."""
    domain = find_domain(name)
    _reject_renamed_options(name, parameters)
    try:
        inspect.signature(domain).bind(**parameters)
    except TypeError as error:
        accepted = ", ".join(inspect.signature(domain).parameters) or "none"
        raise ConfigError(f"domain {name!r}: {error}; its parameters are: {accepted}") from None
    try:
        return domain(**parameters)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"domain {name!r} cannot be built with {_shown(parameters)}: {error}") from error


def _reject_renamed_options(name: str, parameters: Mapping[str, Any]) -> None:
    tables = {f"{table}.": value for table, value in parameters.items() if isinstance(value, dict)}
    for prefix, table in {"": parameters, **tables}.items():
        for option in table:
            if new := renamed_option(name, f"{prefix}{option}"):
                raise ConfigError(f"domain.options.{prefix}{option} was renamed: use domain.options.{new}")


def find_domain(name: str) -> type[Domain]:
    """Return the class of a domain. Built-in names take precedence over names registered by packages."""
    if name in _registered:
        return _registered[name]
    paths = {**_installed(), **BUILT_IN}
    if name not in paths and not is_import_path(name):
        hint = nearest_or_all(name, domain_names())
        raise ConfigError(f"domain {name!r} does not exist; {hint} (name your own class as 'module:Class')")
    what = f"domain {name!r}:"
    return _require_domain(
        load_object(paths[name], what=what) if name in paths else load_user_object(name, what=what), name
    )


def _installed() -> dict[str, str]:
    return {entry.name: entry.value for entry in entry_points(group=GROUP)}


def _require_domain(found: object, name: str) -> type[Domain]:
    """Raise ``ConfigError`` unless the configured object is a subclass of ``Domain``."""
    if isinstance(found, type) and issubclass(found, Domain):
        return found
    raise ConfigError(
        f"domain {name!r}: {shown(found)} is not a subclass of steelyard.domains.Domain; derive your class from it and "
        "define size, task and verifier"
    )


def _shown(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {shown(value)}" for name, value in parameters.items()) or "its defaults"
