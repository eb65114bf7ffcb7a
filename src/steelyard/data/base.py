"""The ``Source`` protocol, and the context passed to a custom source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from steelyard.domains.base import Domain
from steelyard.types import GroupSummary, Task


@runtime_checkable
class Source(Protocol):
    """Provides tasks for each step and observes their results. Datasets, generators and mixtures are sources.

    All state is in ``state_dict`` (plain data that can be stored as JSON), so a resumed run draws exactly the tasks
    that an uninterrupted run would have drawn.
    """

    def draw(self, step: int, n: int) -> list[Task]:
        """Return the next ``n`` tasks."""
        ...

    def observe(self, groups: Sequence[GroupSummary]) -> None:
        """Receive the results of tasks drawn earlier: all sampled groups, including those that were replaced."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class SourceContext:
    """The first argument passed to a custom source, configured as ``[tasks.source] kind = "module:Class"``."""

    tasks: Sequence[Task]
    """The listed training tasks; empty if there are none."""
    domain: Domain | None
    """The domain of the run, if it has one."""
    seed: int
    """``run.seed``. Derive every random choice from this seed and a counter, never from earlier draws."""
