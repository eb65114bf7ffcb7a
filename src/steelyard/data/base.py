"""Sources of tasks, and what a source of the user's own is built from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from steelyard.domains.base import Domain
from steelyard.types import GroupSummary, Task


@runtime_checkable
class Source(Protocol):
    """Gives tasks step by step and sees what became of them. Data sets, generators and mixtures are sources.

    All state is in ``state_dict`` (plain data that survives JSON), so a resumed run draws exactly the tasks that the
    uninterrupted one would have.
    """

    def draw(self, step: int, n: int) -> list[Task]:
        """The next ``n`` tasks."""
        ...

    def observe(self, groups: Sequence[GroupSummary]) -> None:
        """What the policy made of tasks drawn before: all groups that were sampled, replaced ones included."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What a source of the user's own gets as its first argument: ``[tasks.source] kind = "module:Class"``."""

    tasks: Sequence[Task]
    """The listed training tasks; empty if there are none."""
    domain: Domain | None
    """The domain of the run, if it has one."""
    seed: int
    """``run.seed``: key every random choice with it and a counter, never with the history."""
