"""The seam between the loop and whatever produces its data.

Summaries cross it: for each task the keys, lengths, policy versions and verdicts of its samples. Token ids, text and
supports stay where they were produced until somebody fetches the groups that need them, by the keys in the summaries.
In one process fetching is a lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from steelyard.data.base import Source
from steelyard.sampling.base import Decoding, Sampler, SampleRequest
from steelyard.training.metrics import Metrics
from steelyard.training.phases import Stopwatch, requests_for
from steelyard.types import Group, GroupSummary
from steelyard.verification import Pool


class Taken(NamedTuple):
    """The groups of a step, in slot order."""

    groups: list[GroupSummary]
    replaced: list[GroupSummary]
    """Dead groups that were sampled before in the place of one of ``groups``."""


class Rollouts(Protocol):
    """The loop's only source of data."""

    @property
    def parts(self) -> RolloutParts: ...

    def take(self, step: int, watch: Stopwatch) -> Taken:
        """The groups to learn from at ``step``; waits until they are verified."""
        ...

    def fetch(self, groups: Sequence[GroupSummary]) -> list[Group]:
        """Groups of the last ``take`` in full. A replaced group cannot be fetched."""
        ...

    def publish(self, version: int) -> None:
        """Sample with the policy's newest weights from now on; they are ``version``."""
        ...

    def observe(self, groups: Sequence[GroupSummary]) -> None:
        """Show the task source what became of its tasks."""
        ...

    def metrics(self) -> Metrics:
        """What happened in the verification pool since the last call, and the age of the samples last taken."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """While the context is open, sampler and pool are free for other work, such as an evaluation."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def close(self, within: float | None = None) -> None:
        """Stop sampling and drop what is unfinished, waiting at most ``within`` seconds for it (None: any time)."""
        ...


@dataclass(slots=True)
class RolloutParts:
    """What groups are made with: tasks, a sampler, a verification pool, and how many of everything."""

    source: Source
    sampler: Sampler
    pool: Pool
    dead: Callable[[Group], bool]
    """Whether a group has nothing to teach."""
    tasks_per_step: int
    group_size: int
    decoding: Decoding
    refill_dead_groups: int = 0
    """How often a dead group is replaced by a group for another task."""

    def draw(self, step: int) -> list[SampleRequest]:
        """Requests for the tasks of a step."""
        return requests_for(self.source.draw(step, self.tasks_per_step), step, self.group_size)

    def refills(self, sampled: Sequence[tuple[SampleRequest, Group]]) -> list[SampleRequest]:
        """One request for another task in the place of each dead group of a step, unless it was replaced often enough.

        As in dynamic sampling (DAPO, arXiv:2503.14476), but bounded, and in place: a slot keeps its random numbers.
        """
        again = [
            request for request, group in sampled if request.attempt < self.refill_dead_groups and self.dead(group)
        ]
        if not again:
            return []
        tasks = self.source.draw(again[0].step, len(again))
        return [
            replace(request, task=task, attempt=request.attempt + 1) for request, task in zip(again, tasks, strict=True)
        ]


def find_groups(held: Sequence[Group], wanted: Sequence[GroupSummary]) -> list[Group]:
    """The groups that the summaries are of, in their order."""
    by_key = {group.key: group for group in held}
    return [by_key[summary.key] for summary in wanted]
