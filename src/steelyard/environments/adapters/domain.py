"""A domain whose tasks are seeds of an environment, so that a configuration can use the environment by name.

::

    [domain]
    name = "steelyard.environments.adapters:EnvironmentDomain"
    options = { environment = "textarena:GuessTheNumber-v0" }
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from steelyard.domains.base import Domain, Split
from steelyard.environments.adapters.base import SeededEnvironment
from steelyard.environments.adapters.gymnasium import GymnasiumEnvironment
from steelyard.environments.adapters.textarena import TextArenaEnvironment
from steelyard.errors import ConfigError
from steelyard.types import Task

KINDS: Mapping[str, type[SeededEnvironment]] = MappingProxyType(
    {"gymnasium": GymnasiumEnvironment, "textarena": TextArenaEnvironment}
)


class EnvironmentDomain(Domain):
    """Assigns the first seeds to validation tasks, the next to held-out tasks, and all others to training tasks."""

    def __init__(
        self, environment: str | SeededEnvironment, *, validation: int = 64, held_out: int = 256, **options: Any
    ) -> None:
        """``environment``: an object, or ``gymnasium:ID`` or ``textarena:ID`` to build one with ``options``."""
        self.environment = _built(environment, options) if isinstance(environment, str) else environment
        self.validation, self.held_out = validation, held_out

    @property
    def name(self) -> str:
        return self.environment.title

    def size(self, split: Split) -> int | None:
        return {"validation": self.validation, "held_out": self.held_out}.get(split)

    def task(self, split: Split, index: int) -> Task:
        first = {"validation": 0, "held_out": self.validation, "train": self.validation + self.held_out}[split]
        return self.environment.tasks(1, first=first + index)[0]

    def verifier(self) -> Any:
        return self.environment


def _built(environment: str, options: Mapping[str, Any]) -> SeededEnvironment:
    kind, colon, name = environment.partition(":")
    if kind not in KINDS or not colon:
        raise ConfigError(f"environment = {environment!r} must be one of {', '.join(f'{each}:ID' for each in KINDS)}")
    made: Any = KINDS[kind]
    return made(name, **options)
