"""What a run is given besides its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.config import Config
from steelyard.domains.base import Domain
from steelyard.domains.registry import make_domain


@dataclass(frozen=True, slots=True)
class Supplied:
    """Parts handed over as Python objects instead of being named in the configuration."""

    model: Any = None
    tasks: Any = None
    eval_tasks: Any = None
    verifier: Any = None
    constraint: Any = None
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files to keep in the run folder, by name: tasks that were handed over and can be written down."""


NOTHING = Supplied()


def build_domain(config: Config) -> Domain | None:
    return None if config.domain is None else make_domain(config.domain.name, **config.domain.options)
