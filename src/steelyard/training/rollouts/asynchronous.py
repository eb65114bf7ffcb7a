r"""Asynchronous rollouts: a thread samples and verifies the next groups while the learner trains on the last ones.

The staleness bound is S: a sample drawn with weights of version v may be used at step t only if t - v <= S. With n
groups per step, group number g (counted from 0 in sampling order) is used at step g // n if all groups arrive in order.
The thread may therefore start it as soon as

    g // n - v <= S,

where v is the version of the sampler's weights. A group whose verdicts are late can be overtaken by complete groups, as
long as every remaining group can still be used in time (:func:`choose_groups`). The log-probs recorded with each sample
correct for the staleness (``importance_cap``).

New weights are published between two portions of sampling. Only synchronous runs resume exactly: an asynchronous run
draws and samples the tasks of unfinished groups again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from steelyard.sampling.base import SampleRequest
from steelyard.tracking import Activity
from steelyard.training.metrics import Metrics, pool_metrics, staleness_metrics
from steelyard.training.phases import Stopwatch, rollout_progress
from steelyard.training.rollouts.base import RolloutParts, StepGroups, find_groups
from steelyard.types import Group, GroupSummary, Sample, SampleKey, Verdict
from steelyard.verification import Item

PORTIONS = 4
"""Number of portions per step if the staleness bound is above 1. New weights can be published between portions."""
POLL_SECONDS = 0.05
REPORT_SECONDS = 0.5
"""Interval at which the waiting loop reports progress."""
StepSlot = tuple[int, int]
"""The step that a task was drawn for, and its slot in that step."""


@dataclass(slots=True, eq=False)
class PendingGroup:
    """A group that was started but not yet taken by the loop."""

    request: SampleRequest
    version: int
    samples: dict[SampleKey, Sample] = field(default_factory=dict[SampleKey, Sample])
    verdicts: dict[SampleKey, Verdict] = field(default_factory=dict[SampleKey, Verdict])
    replaced: list[GroupSummary] = field(default_factory=list[GroupSummary])
    """Dead groups that were sampled before in the same slot."""

    @property
    def step_slot(self) -> StepSlot:
        return self.request.step, self.request.slot

    @property
    def complete(self) -> bool:
        return len(self.verdicts) == self.request.count

    def complete_group(self) -> Group:
        """Return the group with its samples and verdicts in order."""
        keys = sorted(self.samples)
        return Group(
            self.request.task, tuple(self.samples[key] for key in keys), tuple(self.verdicts[key] for key in keys)
        )


def _age(group: PendingGroup) -> tuple[int, StepSlot]:
    return group.version, group.step_slot


def choose_groups(pending: Sequence[PendingGroup], step: int, count: int, staleness: int) -> list[PendingGroup] | None:
    """Return the ``count`` oldest complete groups in (step, slot) order, or None to wait for more verdicts.

    All other groups must still be usable within the staleness bound, ``count`` per step from the next step on.
    """
    by_age = sorted(pending, key=_age)
    ready = [group for group in by_age if group.complete][:count]
    chosen = {group.step_slot for group in ready}
    remaining = [group for group in by_age if group.step_slot not in chosen]
    in_time = all(step + 1 + number // count <= group.version + staleness for number, group in enumerate(remaining))
    return sorted(ready, key=lambda group: group.step_slot) if len(ready) == count and in_time else None


class AsynchronousRollouts:
    """Samples groups in a thread, at most ``staleness`` versions ahead of the learner, for ``steps`` steps.

    Only the thread may use the source and the sampler until ``close``.
    """

    def __init__(self, parts: RolloutParts, *, steps: int, staleness: int) -> None:
        self.parts, self.staleness = parts, staleness
        self.portion = parts.tasks_per_step if staleness <= 1 else -(-parts.tasks_per_step // PORTIONS)
        self._changed = threading.Condition()
        self._version = 0
        self._started = 0
        """Number of groups started, excluding refills."""
        self._end_step = steps
        """Sampling ends before this step. ``take`` raises this limit if the loop runs past it."""
        self._queue: deque[SampleRequest] = deque()
        self._pending: dict[StepSlot, PendingGroup] = {}
        self._before_draw: dict[int, dict[str, Any]] = {}
        """State of the source before it drew the tasks of a step, by step."""
        self._unverified = 0
        self._watch = Stopwatch()
        self._taken: list[Group] = []
        """Groups of the last ``take``."""
        self._staleness: Metrics = {}
        """Staleness of the samples of the last ``take``."""
        self._pause_requests = 0
        """Number of callers that currently need the sampler to be idle."""
        self._sampling = False
        self._closing = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    # --- called by the loop ------------------------------------------------------------------------------------------

    def take(self, step: int, watch: Stopwatch) -> StepGroups:
        self._start()
        with self._changed, watch.timed("wait"):
            self._end_step = max(self._end_step, step + 1)
            count = self.parts.tasks_per_step
            while (chosen := choose_groups([*self._pending.values()], step, count, self.staleness)) is None:
                self._raise_if_broken()
                watch.report(self._awaited())
                self._changed.wait(REPORT_SECONDS)
            for group in chosen:
                del self._pending[group.step_slot]
            watch.seconds |= self._watch.seconds
            self._watch = Stopwatch()
            self._changed.notify_all()
        self._taken = [group.complete_group() for group in chosen]
        replaced = [dead for group in chosen for dead in group.replaced]
        taken = StepGroups([group.summary() for group in self._taken], replaced)
        self._staleness = staleness_metrics([sample for group in taken.groups for sample in group.samples], step)
        return taken

    def fetch(self, groups: Sequence[GroupSummary]) -> list[Group]:
        return find_groups(self._taken, groups)

    def metrics(self) -> Metrics:
        return pool_metrics(self.parts.pool.metrics()) | self._staleness

    def _awaited(self) -> Activity:
        """Return the progress of the groups that the loop will take next."""
        count = self.parts.tasks_per_step
        oldest = sorted(self._pending.values(), key=_age)[:count]
        sampled = sum(len(group.samples) for group in oldest)
        verified = sum(len(group.verdicts) for group in oldest)
        return rollout_progress(sampled, verified, count * self.parts.group_size)

    def publish(self, version: int) -> None:
        """Publish the weights. Before the first step, ``version`` is also the number of that step."""
        with self._sampling_paused():
            self.parts.sampler.publish(version)
            with self._changed:
                self._version = version
                if self._thread is None:
                    self._started = version * self.parts.tasks_per_step

    @contextmanager
    def paused(self) -> Iterator[None]:
        with self._sampling_paused():
            with self._changed:
                while self._unverified and self._error is None:
                    self._changed.wait()
                self._raise_if_broken()
            yield

    def observe(self, groups: Sequence[GroupSummary]) -> None:
        """Report the groups to the source, and apply them to its earlier states that a checkpoint may need."""
        with self._changed:
            self.parts.source.observe(groups)
            now = self.parts.source.state_dict()
            for step, state in self._before_draw.items():
                self.parts.source.load_state_dict(state)
                self.parts.source.observe(groups)
                self._before_draw[step] = self.parts.source.state_dict()
            self.parts.source.load_state_dict(now)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the source before it drew the first task that was not trained on yet."""
        with self._changed:
            open_steps = [step for step, _ in self._pending] + [request.step for request in self._queue]
            return self._before_draw[min(open_steps)] if open_steps else self.parts.source.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.parts.source.load_state_dict(state)

    def close(self, within: float | None = None) -> None:
        """Stop for good. A thread that needs more than ``within`` seconds to finish is abandoned."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(within)
            self._thread = None

    def _start(self) -> None:
        if self._thread is None and not self._closing:
            self._thread = threading.Thread(target=self._run, name="asynchronous rollouts", daemon=True)
            self._thread.start()

    def _raise_if_broken(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closing:
            raise RuntimeError("the rollouts are closed: build a new trainer to continue the run")

    @contextmanager
    def _sampling_paused(self) -> Iterator[None]:
        """Wait for the current portion to finish, and do not start another inside the context."""
        with self._changed:
            self._pause_requests += 1
            while self._sampling:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._pause_requests -= 1
                self._changed.notify_all()

    # --- in the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closing:
                portion = self._next_portion()
                if portion:
                    self._sample(portion)
                elif self._unverified:
                    self._receive(wait=POLL_SECONDS)
                else:
                    with self._changed:
                        self._changed.wait(POLL_SECONDS)
        except BaseException as error:  # noqa: BLE001 - the loop raises it
            self._error = error
        finally:
            with self._changed:
                self._sampling = False
                self._changed.notify_all()

    def _next_portion(self) -> list[SampleRequest]:
        """Return the requests to sample now: none during a pause, at the staleness bound or at the end."""
        count = self.parts.tasks_per_step
        with self._changed:
            if self._pause_requests or self._closing:
                return []
            step = self._started // count
            if not self._queue and step < self._end_step and step - self._version <= self.staleness:
                self._draw(step)
            portion = [self._queue.popleft() for _ in range(min(len(self._queue), self.portion))]
            for request in portion:
                before = self._pending.get((request.step, request.slot))
                replaced = [] if before is None else before.replaced
                self._pending[request.step, request.slot] = PendingGroup(request, self._version, replaced=replaced)
            self._sampling = bool(portion)
            return portion

    def _draw(self, step: int) -> None:
        needed = [number for number in self._before_draw if any(number == key[0] for key in self._pending)]
        self._before_draw = {number: self._before_draw[number] for number in needed}
        self._before_draw[step] = self.parts.source.state_dict()
        requests = self.parts.draw(step)
        self._queue.extend(requests)
        self._started += len(requests)

    def _sample(self, portion: Sequence[SampleRequest]) -> None:
        by_slot = {(request.step, request.slot): request for request in portion}
        stream = self.parts.sampler.sample(portion, self.parts.decoding)
        while not self._closing and (sample := self._next(stream)) is not None:
            request = by_slot[sample.key[:2]]
            with self._changed:
                self._pending[request.step, request.slot].samples[sample.key] = sample
                self._unverified += 1
            with self._watch.timed("verify"):
                self.parts.pool.submit([Item(request.task, sample, request.count)])
            self._receive(wait=False)
        with self._changed:
            self._sampling = False
            self._changed.notify_all()

    def _next(self, stream: Iterator[Sample]) -> Sample | None:
        with self._watch.timed("sample"):
            return next(stream, None)

    def _receive(self, *, wait: bool | float) -> None:
        with self._watch.timed("verify"):
            completed = list(self.parts.pool.completed(wait=wait))
        with self._changed:
            for key, verdict in completed:
                pending = self._pending[key.step, key.slot]
                pending.verdicts[key] = verdict
                if pending.complete:
                    self._refill(pending)
            self._unverified -= len(completed)
            if completed:
                self._changed.notify_all()

    def _refill(self, pending: PendingGroup) -> None:
        """Queue a request for another task if the group is dead."""
        group = pending.complete_group()
        if refills := self.parts.refills([(pending.request, group)]):
            self._queue.extendleft(refills)
            pending.verdicts.clear()
            pending.replaced.append(group.summary())
