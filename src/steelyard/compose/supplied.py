"""What a run is given besides its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from steelyard.config import Config
from steelyard.domains.base import Domain
from steelyard.domains.registry import make_domain
from steelyard.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Supplied:
    """Parts handed over as Python objects instead of being named in the configuration."""

    model: Any = None
    domain: Domain | None = None
    """The one instance of a run: handed over, or built from the configuration by ``with_domain``."""
    tasks: Any = None
    eval_tasks: Any = None
    verifier: Any = None
    constraint: Any = None
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files to keep in the run folder, by name: tasks that were handed over and can be written down."""


NOTHING = Supplied()


def with_domain(config: Config, supplied: Supplied = NOTHING) -> Supplied:
    """The parts of a run with its domain, so that everything that is built from them shares one instance."""
    return replace(supplied, domain=build_domain(config, supplied))


def build_domain(config: Config, supplied: Supplied = NOTHING) -> Domain | None:
    """The domain that was handed over, else the one that the configuration names; ``None`` for a run of [tasks]."""
    if supplied.domain is not None:
        return supplied.domain
    if "domain" in config.run.supplied:
        raise ConfigError(
            f"{config.run.name} was started from Python with a domain that the run folder cannot hold: name its class "
            "with domain.name = 'module:Class', or open the run with steelyard.open_run(…, domain=…)"
        )
    return None if config.domain is None else make_domain(config.domain.name, **config.domain.options)
