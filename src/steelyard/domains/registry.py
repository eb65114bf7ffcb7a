"""Domains by name: built in, registered in this process, of installed packages (entry point group
``steelyard.domains``), or by import path.
"""

from __future__ import annotations

import inspect
from importlib.metadata import entry_points
from typing import Any

from steelyard.domains.base import Domain
from steelyard.errors import ConfigError
from steelyard.import_paths import is_import_path, load_object, load_own
from steelyard.suggest import nearest_or_all
from steelyard.text import shown

GROUP = "steelyard.domains"
BUILT_IN = {
    "bricks": "steelyard.domains.bricks.domain:Bricks",
    "infill": "steelyard.domains.infill:Infill",
    "sequences": "steelyard.domains.sequences:Sequences",
    "theories": "steelyard.domains.theories.domain:Theories",
}
_registered: dict[str, type[Domain]] = {}


def register(name: str, domain: type[Domain]) -> None:
    """Make a domain known by a name in this process: ``[domain] name = "mine"``."""
    if name in BUILT_IN or is_import_path(name):
        raise ConfigError(f"{name!r} cannot name a domain of yours: it is built in or an import path; choose another")
    _registered[name] = _require_domain(domain, name)


def domain_names() -> list[str]:
    """Every domain that is known by a name."""
    return sorted({*_installed(), *_registered, *BUILT_IN})


def is_domain(name: str) -> bool:
    """Whether a text names a domain, by its name or its import path."""
    return name in domain_names() or is_import_path(name)


def make_domain(name: str, **parameters: Any) -> Domain:
    """The domain of that name or import path, built with its own parameters."""
    domain = find_domain(name)
    try:
        inspect.signature(domain).bind(**parameters)
    except TypeError as error:
        accepted = ", ".join(inspect.signature(domain).parameters) or "none"
        raise ConfigError(f"domain {name!r}: {error}; its parameters are: {accepted}") from None
    try:
        return domain(**parameters)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"domain {name!r} cannot be built with {_shown(parameters)}: {error}") from error


def find_domain(name: str) -> type[Domain]:
    """The class of a domain. A built-in name cannot be taken by another package."""
    if name in _registered:
        return _registered[name]
    paths = {**_installed(), **BUILT_IN}
    if name not in paths and not is_import_path(name):
        hint = nearest_or_all(name, domain_names())
        raise ConfigError(f"no domain named {name!r}; {hint} A class of yours is named as 'module:Class'")
    what = f"domain {name!r}:"
    return _require_domain(load_object(paths[name], what=what) if name in paths else load_own(name, what=what), name)


def _installed() -> dict[str, str]:
    return {entry.name: entry.value for entry in entry_points(group=GROUP)}


def _require_domain(found: object, name: str) -> type[Domain]:
    """Whatever a configuration names must be a domain's class before it is called."""
    if isinstance(found, type) and issubclass(found, Domain):
        return found
    raise ConfigError(
        f"domain {name!r}: {shown(found)} is not a subclass of steelyard.domains.Domain; derive one from it and write "
        "size, task and verifier"
    )


def _shown(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {shown(value)}" for name, value in parameters.items()) or "its defaults"
