"""The interface between the loop and the producers of its data.

The loop receives summaries: for each task the keys, lengths, policy versions and verdicts of its samples. Token ids,
text and supports stay where they were produced until the loop fetches groups by the keys in their summaries. In a
single process, fetching is a lookup.
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


class StepGroups(NamedTuple):
    """The groups of a step, in slot order."""

    groups: list[GroupSummary]
    replaced: list[GroupSummary]
    """Dead groups that were sampled first and then replaced by one of ``groups``."""


class Rollouts(Protocol):
    """The loop's only source of data."""

    @property
    def parts(self) -> RolloutParts: ...

    def take(self, step: int, watch: Stopwatch) -> StepGroups:
        """Return the groups to learn from at ``step``. Blocks until the groups are verified."""
        ...

    def fetch(self, groups: Sequence[GroupSummary]) -> list[Group]:
        """Return groups of the last ``take`` with all their data. Replaced groups cannot be fetched."""
        ...

    def publish(self, version: int) -> None:
        """Use the policy's current weights for all further sampling, and label them ``version``."""
        ...

    def observe(self, groups: Sequence[GroupSummary]) -> None:
        """Report the sampled groups to the task source."""
        ...

    def metrics(self) -> Metrics:
        """Return the counters of the verification pool since the last call, and the staleness of the last samples."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Pause sampling, so that the sampler and the pool can be used for an evaluation inside the context."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def close(self, within: float | None = None) -> None:
        """Stop sampling and discard unfinished groups. Waits at most ``within`` seconds; None waits indefinitely."""
        ...


@dataclass(slots=True)
class RolloutParts:
    """The task source, sampler and verification pool of the rollouts, and the size of each step."""

    source: Source
    sampler: Sampler
    pool: Pool
    dead: Callable[[Group], bool]
    """Returns whether a group is dead: it has no advantage to learn from."""
    tasks_per_step: int
    group_size: int
    decoding: Decoding
    refill_dead_groups: int = 0
    """How many times a dead group may be replaced by a group for another task."""

    def draw(self, step: int) -> list[SampleRequest]:
        """Draw the tasks of a step and create their sampling requests."""
        return requests_for(self.source.draw(step, self.tasks_per_step), step, self.group_size)

    def refills(self, sampled: Sequence[tuple[SampleRequest, Group]]) -> list[SampleRequest]:
        """Create a request for another task for each dead group, up to ``refill_dead_groups`` times per slot.

        This is DAPO's dynamic sampling (arXiv:2503.14476) with a limit on replacements. The new group takes the slot of
        the dead one, so the random numbers of all other slots stay the same.
        """
        dead = [request for request, group in sampled if request.attempt < self.refill_dead_groups and self.dead(group)]
        if not dead:
            return []
        tasks = self.source.draw(dead[0].step, len(dead))
        return [
            replace(request, task=task, attempt=request.attempt + 1) for request, task in zip(dead, tasks, strict=True)
        ]


def find_groups(groups: Sequence[Group], summaries: Sequence[GroupSummary]) -> list[Group]:
    """Return the groups with the keys of the summaries, in the same order."""
    by_key = {group.key: group for group in groups}
    return [by_key[summary.key] for summary in summaries]
