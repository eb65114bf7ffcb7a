"""Python objects passed to a run in addition to its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from steelyard.config import Config
from steelyard.domains.base import Domain
from steelyard.domains.registry import make_domain
from steelyard.errors import ConfigError
from steelyard.tools import Tool, load_tools


@dataclass(frozen=True, slots=True)
class Supplied:
    """Parts of a run that are passed as Python objects instead of being named in the configuration."""

    model: Any = None
    domain: Domain | None = None
    """The run's only domain instance: passed by the user, or built from the configuration by ``with_domain``."""
    tasks: Any = None
    eval_tasks: Any = None
    verifier: Any = None
    tools: Any = None
    constraint: Any = None
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files to store in the run folder, by name: supplied tasks that can be serialised."""


NOTHING_SUPPLIED = Supplied()


def build_tools(config: Config, supplied: Supplied = NOTHING_SUPPLIED) -> list[Tool]:
    """Return the tools that the policy can call: supplied ones, or those named in the configuration."""
    if supplied.tools is None and "tools" in config.run.supplied:
        raise ConfigError(
            f"{config.run.name} was started from Python with tools that the run folder cannot store: set "
            "episode.tools = ['module:function'], or open the run with steelyard.open_run(…, tools=[…])"
        )
    return load_tools(config.episode.tools if supplied.tools is None else supplied.tools)


def with_domain(config: Config, supplied: Supplied = NOTHING_SUPPLIED) -> Supplied:
    """Add the run's domain, so that everything built from the parts shares one instance."""
    return replace(supplied, domain=build_domain(config, supplied))


def build_domain(config: Config, supplied: Supplied = NOTHING_SUPPLIED) -> Domain | None:
    """Return the supplied domain, or build the one in the configuration; ``None`` for a run with [tasks]."""
    if supplied.domain is not None:
        return supplied.domain
    if "domain" in config.run.supplied:
        raise ConfigError(
            f"{config.run.name} was started from Python with a domain that the run folder cannot store: set "
            "domain.name = 'module:Class', or open the run with steelyard.open_run(…, domain=…)"
        )
    return None if config.domain is None else make_domain(config.domain.name, **config.domain.options)
