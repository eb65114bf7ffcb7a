"""Synchronous rollouts: the learner waits while the groups of a step are sampled with the current weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from steelyard.training.metrics import Metrics, pool_metrics
from steelyard.training.phases import Stopwatch, collect
from steelyard.training.rollouts.base import RolloutParts, StepGroups, find_groups
from steelyard.types import Group, GroupSummary


class SynchronousRollouts:
    """Draws, samples and verifies the groups of a step when the loop takes them. Resuming a run is exact."""

    def __init__(self, parts: RolloutParts) -> None:
        self.parts = parts
        self._groups: list[Group] = []
        """Groups of the last step, in slot order."""

    def take(self, step: int, watch: Stopwatch) -> StepGroups:
        groups: dict[int, Group] = {}
        replaced: list[GroupSummary] = []
        requests = self.parts.draw(step)
        while requests:
            sampled = collect(self.parts.sampler, self.parts.pool, requests, self.parts.decoding, watch)
            for request, group in zip(requests, sampled, strict=True):
                if request.slot in groups:
                    replaced.append(groups[request.slot].summary())
                groups[request.slot] = group
            requests = self.parts.refills(list(zip(requests, sampled, strict=True)))
        self._groups = [groups[slot] for slot in sorted(groups)]
        return StepGroups([group.summary() for group in self._groups], replaced)

    def fetch(self, groups: Sequence[GroupSummary]) -> list[Group]:
        return find_groups(self._groups, groups)

    def publish(self, version: int) -> None:
        self.parts.sampler.publish(version)

    def observe(self, groups: Sequence[GroupSummary]) -> None:
        self.parts.source.observe(groups)

    def metrics(self) -> Metrics:
        return pool_metrics(self.parts.pool.metrics())

    def paused(self) -> AbstractContextManager[None]:
        return nullcontext()

    def state_dict(self) -> dict[str, Any]:
        return self.parts.source.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.parts.source.load_state_dict(state)

    def close(self, within: float | None = None) -> None:
        """Do nothing: no sampling continues between two steps."""
