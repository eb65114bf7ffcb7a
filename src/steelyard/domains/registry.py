"""Domains by name: the built-in ones and those of installed packages (entry point group ``steelyard.domains``)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any

from steelyard.domains.base import Domain
from steelyard.errors import ConfigError
from steelyard.import_paths import load_object
from steelyard.suggest import nearest_or_all
from steelyard.text import shown

GROUP = "steelyard.domains"
BUILT_IN = {
    "bricks": "steelyard.domains.bricks.domain:Bricks",
    "infill": "steelyard.domains.infill:Infill",
    "sequences": "steelyard.domains.sequences:Sequences",
    "theories": "steelyard.domains.theories.domain:Theories",
}


def domain_paths() -> dict[str, str]:
    """Import path of every known domain by name. A built-in name cannot be taken by another package."""
    installed = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    return {**installed, **BUILT_IN}


def domains_with(ability: type) -> list[str]:
    """Names of the domains whose class has the methods of a protocol; packages that cannot be imported are left out."""
    found: list[str] = []
    for name, path in sorted(domain_paths().items()):
        with suppress(ConfigError):
            factory = _load(name, path)
            if isinstance(factory, type) and issubclass(factory, ability):
                found.append(name)
    return found


def make_domain(name: str, **parameters: Any) -> Domain:
    """The domain of that name, built with its own parameters."""
    paths = domain_paths()
    if name not in paths:
        raise ConfigError(f"no domain named {name!r}; {nearest_or_all(name, sorted(paths))}")
    factory = _load(name, paths[name])
    try:
        inspect.signature(factory).bind(**parameters)
    except TypeError as error:
        accepted = ", ".join(inspect.signature(factory).parameters) or "none"
        raise ConfigError(f"domain {name!r}: {error}; its parameters are: {accepted}") from None
    try:
        return factory(**parameters)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"domain {name!r} cannot be built with {_shown(parameters)}: {error}") from error


def _shown(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {shown(value)}" for name, value in parameters.items()) or "its defaults"


def _load(name: str, path: str) -> Callable[..., Domain]:
    return load_object(path, what=f"domain {name!r}:")
