r"""Asynchronous steps: a thread samples and verifies the next groups while the learner works on the last ones.

Staleness is a bound S: a sample made with weights of version v is learnt from at step t only if t - v <= S. With n
groups a step, group number g (from 0, in the order of sampling) is learnt at step g // n if everything comes in order,
so the thread may begin it as soon as

    g // n - v <= S,

where v is the version that the sampler has. A group whose verdicts are late is held over, and others that are complete
go first, as long as those that are left can all be learnt in time (:func:`choose`). What is off-policy by then is
corrected by the log-probs recorded with each sample (``importance_cap``).

New weights come in between two portions of sampling. Exact resume is a promise of synchronous runs only: here what is
under way when a run stops is drawn and sampled again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from steelyard.data.base import Source
from steelyard.sampling.base import Sampler, SampleRequest
from steelyard.tracking import Activity
from steelyard.training.credit import Credit
from steelyard.training.phases import Stopwatch, requests_for, under_way
from steelyard.types import Group, Sample, SampleKey, Verdict
from steelyard.verification import Item, Pool

if TYPE_CHECKING:
    from steelyard.training.loop import Plan

PORTIONS = 4
"""Into how many portions the sampling of a step is divided, if there is room for more than one step."""
POLL_SECONDS = 0.05
GRACE_SECONDS = 2.0
"""How long a run that must stop now waits for the sampling thread."""
REPORT_SECONDS = 0.5
"""How often a loop that waits for samples reports how many there are."""
Place = tuple[int, int]
"""The step that a task was drawn for, and its slot."""


@dataclass(slots=True, eq=False)
class Pending:
    """A group that was begun and not yet learnt from."""

    request: SampleRequest
    version: int
    samples: dict[SampleKey, Sample] = field(default_factory=dict[SampleKey, Sample])
    verdicts: dict[SampleKey, Verdict] = field(default_factory=dict[SampleKey, Verdict])
    replaced: list[Group] = field(default_factory=list[Group])
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


class Ahead:
    """Groups that are sampled ahead of the learner, at most ``staleness`` versions.

    It stands before the source and the sampler for as long as the run goes on: both are used by its thread alone.
    """

    def __init__(
        self, source: Source, sampler: Sampler, pool: Pool, credit: Credit, plan: Plan, *, staleness: int
    ) -> None:
        self.source, self.sampler, self.pool, self.credit, self.plan = source, sampler, pool, credit, plan
        self.staleness = staleness
        self.portion = plan.tasks_per_step if staleness <= 1 else -(-plan.tasks_per_step // PORTIONS)
        self._news = threading.Condition()
        self._version = 0
        self._begun = 0
        """Groups begun, those of attempts after the first not counted."""
        self._last = plan.steps
        """The step that nothing is sampled for any more: the plan's end, or after a step that was asked for beyond."""
        self._queue: deque[SampleRequest] = deque()
        self._pending: dict[Place, Pending] = {}
        self._before_draw: dict[int, dict[str, Any]] = {}
        """The source's state before the tasks of a step were drawn."""
        self._unjudged = 0
        self._watch = Stopwatch()
        self._holds = 0
        """How many want the sampler to rest."""
        self._sampling = False
        self._closing = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    # --- for the loop ------------------------------------------------------------------------------------------------

    def take(self, step: int, watch: Stopwatch) -> tuple[list[Group], list[Group]]:
        """Groups to learn from at ``step``, and those that they replaced; waits until there are enough."""
        self._start()
        with self._news, watch.timed("wait"):
            self._last = max(self._last, step + 1)
            while (chosen := choose([*self._pending.values()], step, self.plan.tasks_per_step, self.staleness)) is None:
                self._raise_if_broken()
                watch.report(self._awaited())
                self._news.wait(REPORT_SECONDS)
            for one in chosen:
                del self._pending[one.place]
            watch.seconds |= self._watch.seconds
            self._watch = Stopwatch()
            self._news.notify_all()
        return [one.group() for one in chosen], [group for one in chosen for group in one.replaced]

    def _awaited(self) -> Activity:
        """How far the groups are that are next to be learnt from."""
        count = self.plan.tasks_per_step
        oldest = sorted(self._pending.values(), key=_age)[:count]
        sampled = sum(len(one.samples) for one in oldest)
        return under_way(sampled, sum(len(one.verdicts) for one in oldest), count * self.plan.group_size)

    def publish(self, version: int) -> None:
        """New weights for what is sampled from now on. Before the first step it also says which one that is."""
        with self._resting():
            self.sampler.publish(version)
            with self._news:
                self._version = version
                if self._thread is None:
                    self._begun = version * self.plan.tasks_per_step

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The sampler at rest and the pool empty, for somebody else to use them."""
        with self._resting():
            with self._news:
                while self._unjudged and self._error is None:
                    self._news.wait()
                self._raise_if_broken()
            yield

    def observe(self, groups: Sequence[Group]) -> None:
        """Tell the source, and every state of it that a checkpoint may hold: those are from before the observation."""
        with self._news:
            self.source.observe(groups)
            now = self.source.state_dict()
            for step, state in self._before_draw.items():
                self.source.load_state_dict(state)
                self.source.observe(groups)
                self._before_draw[step] = self.source.state_dict()
            self.source.load_state_dict(now)

    def state_dict(self) -> dict[str, Any]:
        """The source's, as it was before it drew the first task that is not learnt from yet."""
        with self._news:
            open_steps = [step for step, _ in self._pending] + [request.step for request in self._queue]
            return self._before_draw[min(open_steps)] if open_steps else self.source.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.source.load_state_dict(state)

    def close(self, within: float | None = None) -> None:
        """Stop sampling, for good; what is under way is dropped. A thread that does not end ``within`` these seconds is
        abandoned.
        """
        with self._news:
            self._closing = True
            self._news.notify_all()
        if self._thread is not None:
            self._thread.join(within)
            self._thread = None

    def _start(self) -> None:
        if self._thread is None and not self._closing:
            self._thread = threading.Thread(target=self._run, name="sampling ahead", daemon=True)
            self._thread.start()

    def _raise_if_broken(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closing:
            raise RuntimeError("sampling ahead has ended; build another trainer to go on")

    @contextmanager
    def _resting(self) -> Iterator[None]:
        """No portion is being sampled, and none is begun."""
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
                elif self._unjudged:
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
        """What may be sampled now; nothing if somebody wants the sampler to rest, or at the bound or the end."""
        count = self.plan.tasks_per_step
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
        self._before_draw[step] = self.source.state_dict()
        tasks = self.source.draw(step, self.plan.tasks_per_step)
        self._queue.extend(requests_for(tasks, step, self.plan.group_size))
        self._begun += len(tasks)

    def _sample(self, portion: Sequence[SampleRequest]) -> None:
        asked = {(request.step, request.slot): request for request in portion}
        stream = self.sampler.sample(portion, self.plan.decoding)
        while not self._closing and (made := self._next(stream)) is not None:
            request = asked[made.key[:2]]
            with self._news:
                self._pending[request.step, request.slot].samples[made.key] = made
                self._unjudged += 1
            with self._watch.timed("verify"):
                self.pool.submit([Item(request.task, made, request.count)])
            self._receive(wait=False)
        with self._news:
            self._sampling = False
            self._news.notify_all()

    def _next(self, stream: Iterator[Sample]) -> Sample | None:
        with self._watch.timed("sample"):
            return next(stream, None)

    def _receive(self, *, wait: bool | float) -> None:
        with self._watch.timed("verify"):
            found = list(self.pool.completed(wait=wait))
        with self._news:
            for key, verdict in found:
                one = self._pending[key.step, key.slot]
                one.verdicts[key] = verdict
                if one.complete:
                    self._refill(one)
            self._unjudged -= len(found)
            if found:
                self._news.notify_all()

    def _refill(self, one: Pending) -> None:
        """Ask for another task in the place of a group that has nothing to teach, as often as the plan says."""
        group, request = one.group(), one.request
        if request.attempt < self.plan.refill_dead_groups and self.credit.dead(group):
            tasks = self.source.draw(request.step, 1)
            again = requests_for(tasks, request.step, request.count, slots=[request.slot], attempt=request.attempt + 1)
            self._queue.extendleft(again)
            one.verdicts.clear()
            one.replaced.append(group)
