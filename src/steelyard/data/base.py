"""Where tasks come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

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
