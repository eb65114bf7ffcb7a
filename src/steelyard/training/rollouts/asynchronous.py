r"""Asynchronous rollouts: a thread samples and verifies the next groups while the learner works on the last ones.

Staleness is a bound S: a sample drawn with weights of version v may be used at step t only if t - v <= S. With n groups
per step, group number g (from 0, in sampling order) is used at step g // n if everything arrives in order, so the
thread may start it as soon as

    g // n - v <= S,

where v is the sampler's version. A group whose verdicts are late is held over, and complete ones go first, as long as
all the others can still be used in time (:func:`choose`). The log-probs recorded with each sample correct for the
staleness (``importance_cap``).

New weights arrive between two portions of sampling. Only synchronous runs resume exactly: here the tasks whose groups
are unfinished when a run stops are drawn and sampled again.
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
from steelyard.training.phases import Stopwatch, under_way
from steelyard.training.rollouts.base import RolloutParts, Taken, find_groups
from steelyard.types import Group, GroupSummary, Sample, SampleKey, Verdict
from steelyard.verification import Item

PORTIONS = 4
"""Into how many portions the sampling of a step is divided, if there is room for more than one step."""
POLL_SECONDS = 0.05
REPORT_SECONDS = 0.5
"""How often a loop that waits for samples reports how many there are."""
Place = tuple[int, int]
"""The step that a task was drawn for, and its slot."""


@dataclass(slots=True, eq=False)
class Pending:
    """A group that was started and not yet taken."""

    request: SampleRequest
    version: int
    samples: dict[SampleKey, Sample] = field(default_factory=dict[SampleKey, Sample])
    verdicts: dict[SampleKey, Verdict] = field(default_factory=dict[SampleKey, Verdict])
    replaced: list[GroupSummary] = field(default_factory=list[GroupSummary])
    """Dead groups that were sampled in its place before."""

    @property
    def place(self) -> Place:
        return self.request.step, self.request.slot

    @property
    def complete(self) -> bool:
        return len(self.verdicts) == self.request.count

    def group(self) -> Group:
        keys = sorted(self.samples)
        return Group(
            self.request.task, tuple(self.samples[key] for key in keys), tuple(self.verdicts[key] for key in keys)
        )


def _age(one: Pending) -> tuple[int, Place]:
    return one.version, one.place


def choose(pending: Sequence[Pending], step: int, count: int, staleness: int) -> list[Pending] | None:
    """The ``count`` oldest complete groups, by place, if all that are left can still be learnt in time one after
    another from the next step on; None: wait for more verdicts.
    """
    by_age = sorted(pending, key=_age)
    ready = [one for one in by_age if one.complete][:count]
    taken = {one.place for one in ready}
    left = [one for one in by_age if one.place not in taken]
    in_time = all(step + 1 + number // count <= one.version + staleness for number, one in enumerate(left))
    return sorted(ready, key=lambda one: one.place) if len(ready) == count and in_time else None


class AsynchronousRollouts:
    """Groups sampled at most ``staleness`` versions ahead of the learner, for ``steps`` steps.

    Its thread alone uses the source and the sampler until it is closed.
    """

    def __init__(self, parts: RolloutParts, *, steps: int, staleness: int) -> None:
        self.parts, self.staleness = parts, staleness
        self.portion = parts.tasks_per_step if staleness <= 1 else -(-parts.tasks_per_step // PORTIONS)
        self._news = threading.Condition()
        self._version = 0
        self._begun = 0
        """Groups started, without refills."""
        self._last = steps
        """No group is sampled for this step or a later one, unless it is taken."""
        self._queue: deque[SampleRequest] = deque()
        self._pending: dict[Place, Pending] = {}
        self._before_draw: dict[int, dict[str, Any]] = {}
        """The source's state before the tasks of a step were drawn."""
        self._unverified = 0
        self._watch = Stopwatch()
        self._taken: list[Group] = []
        """The groups last taken."""
        self._staleness: Metrics = {}
        """How old their samples were."""
        self._holds = 0
        """How many callers want the sampler to rest."""
        self._sampling = False
        self._closing = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    # --- for the loop ------------------------------------------------------------------------------------------------

    def take(self, step: int, watch: Stopwatch) -> Taken:
        self._start()
        with self._news, watch.timed("wait"):
            self._last = max(self._last, step + 1)
            count = self.parts.tasks_per_step
            while (chosen := choose([*self._pending.values()], step, count, self.staleness)) is None:
                self._raise_if_broken()
                watch.report(self._awaited())
                self._news.wait(REPORT_SECONDS)
            for one in chosen:
                del self._pending[one.place]
            watch.seconds |= self._watch.seconds
            self._watch = Stopwatch()
            self._news.notify_all()
        self._taken = [one.group() for one in chosen]
        taken = Taken([group.summary() for group in self._taken], [group for one in chosen for group in one.replaced])
        self._staleness = staleness_metrics([sample for group in taken.groups for sample in group.samples], step)
        return taken

    def fetch(self, groups: Sequence[GroupSummary]) -> list[Group]:
        return find_groups(self._taken, groups)

    def metrics(self) -> Metrics:
        return pool_metrics(self.parts.pool.metrics()) | self._staleness

    def _awaited(self) -> Activity:
        """Progress of the groups that are next to be taken."""
        count = self.parts.tasks_per_step
        oldest = sorted(self._pending.values(), key=_age)[:count]
        sampled = sum(len(one.samples) for one in oldest)
        return under_way(sampled, sum(len(one.verdicts) for one in oldest), count * self.parts.group_size)

    def publish(self, version: int) -> None:
        """Before the first step, the version also says which step that is."""
        with self._resting():
            self.parts.sampler.publish(version)
            with self._news:
                self._version = version
                if self._thread is None:
                    self._begun = version * self.parts.tasks_per_step

    @contextmanager
    def paused(self) -> Iterator[None]:
        with self._resting():
            with self._news:
                while self._unverified and self._error is None:
                    self._news.wait()
                self._raise_if_broken()
            yield

    def observe(self, groups: Sequence[GroupSummary]) -> None:
        """Show the groups to the source, and to each of its earlier states that a checkpoint may hold."""
        with self._news:
            self.parts.source.observe(groups)
            now = self.parts.source.state_dict()
            for step, state in self._before_draw.items():
                self.parts.source.load_state_dict(state)
                self.parts.source.observe(groups)
                self._before_draw[step] = self.parts.source.state_dict()
            self.parts.source.load_state_dict(now)

    def state_dict(self) -> dict[str, Any]:
        """The source's, as it was before it drew the first task that is not learnt from yet."""
        with self._news:
            open_steps = [step for step, _ in self._pending] + [request.step for request in self._queue]
            return self._before_draw[min(open_steps)] if open_steps else self.parts.source.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.parts.source.load_state_dict(state)

    def close(self, within: float | None = None) -> None:
        """Final: the same rollouts cannot be continued. A thread that takes longer is abandoned."""
        with self._news:
            self._closing = True
            self._news.notify_all()
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
            raise RuntimeError("these rollouts are closed; build another trainer to continue the run")

    @contextmanager
    def _resting(self) -> Iterator[None]:
        """No portion is being sampled, and none is started."""
        with self._news:
            self._holds += 1
            while self._sampling:
                self._news.wait()
        try:
            yield
        finally:
            with self._news:
                self._holds -= 1
                self._news.notify_all()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closing:
                portion = self._next_portion()
                if portion:
                    self._sample(portion)
                elif self._unverified:
                    self._receive(wait=POLL_SECONDS)
                else:
                    with self._news:
                        self._news.wait(POLL_SECONDS)
        except BaseException as error:  # noqa: BLE001 - the loop raises it
            self._error = error
        finally:
            with self._news:
                self._sampling = False
                self._news.notify_all()

    def _next_portion(self) -> list[SampleRequest]:
        """What may be sampled now; nothing while the sampler rests, at the staleness bound or at the end."""
        count = self.parts.tasks_per_step
        with self._news:
            if self._holds or self._closing:
                return []
            step = self._begun // count
            if not self._queue and step < self._last and step - self._version <= self.staleness:
                self._draw(step)
            portion = [self._queue.popleft() for _ in range(min(len(self._queue), self.portion))]
            for request in portion:
                before = self._pending.get((request.step, request.slot))
                replaced = [] if before is None else before.replaced
                self._pending[request.step, request.slot] = Pending(request, self._version, replaced=replaced)
            self._sampling = bool(portion)
            return portion

    def _draw(self, step: int) -> None:
        needed = [number for number in self._before_draw if any(number == place[0] for place in self._pending)]
        self._before_draw = {number: self._before_draw[number] for number in needed}
        self._before_draw[step] = self.parts.source.state_dict()
        requests = self.parts.draw(step)
        self._queue.extend(requests)
        self._begun += len(requests)

    def _sample(self, portion: Sequence[SampleRequest]) -> None:
        asked = {(request.step, request.slot): request for request in portion}
        stream = self.parts.sampler.sample(portion, self.parts.decoding)
        while not self._closing and (made := self._next(stream)) is not None:
            request = asked[made.key[:2]]
            with self._news:
                self._pending[request.step, request.slot].samples[made.key] = made
                self._unverified += 1
            with self._watch.timed("verify"):
                self.parts.pool.submit([Item(request.task, made, request.count)])
            self._receive(wait=False)
        with self._news:
            self._sampling = False
            self._news.notify_all()

    def _next(self, stream: Iterator[Sample]) -> Sample | None:
        with self._watch.timed("sample"):
            return next(stream, None)

    def _receive(self, *, wait: bool | float) -> None:
        with self._watch.timed("verify"):
            found = list(self.parts.pool.completed(wait=wait))
        with self._news:
            for key, verdict in found:
                one = self._pending[key.step, key.slot]
                one.verdicts[key] = verdict
                if one.complete:
                    self._refill(one)
            self._unverified -= len(found)
            if found:
                self._news.notify_all()

    def _refill(self, one: Pending) -> None:
        group = one.group()
        if refills := self.parts.refills([(one.request, group)]):
            self._queue.extendleft(refills)
            one.verdicts.clear()
            one.replaced.append(group.summary())
