"""A discrete-event simulation of a run: samplers, verifier cores, controller, learner and weight publication.

The samples of a step wait in one queue, divided into subgroups that each belong to one group. A replica with free rows
takes a subgroup, runs its prompt once and decodes all its rows together: a pass adds one token to every row and takes
longer the more rows there are (continuous batching). A finished sample passes through the controller to the verifier
cores (first come, first served), and its verdict returns through the controller. After the last verdict of a step, the
policy is updated and its weights are published. Sampling of step k may start once version k - staleness is published;
staleness 0 is the synchronous loop.

The length and verification time of a sample depend only on its step and index, so simulations of different hardware see
the same samples.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import numpy as np

from steelyard.errors import ConfigError

SATURATED = 0.85
"""A part that is busy for at least this share of the time counts as the bottleneck."""


NORMAL_99 = 2.326
"""99th percentile of the standard normal distribution."""
RARE = 0.01


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution given by its mean and 99th percentile, truncated at a limit; constant if p99 is not given.

    The distribution is log-normal if a log-normal one can have such a tail (p99 up to e^2.7 = 15 times the mean).
    Beyond that, one value in a hundred is p99 and all others are equal.
    """

    mean: float
    p99: float | None = None
    limit: float = math.inf

    def __post_init__(self) -> None:
        if self.p99 is not None and not self.mean <= self.p99 <= self.mean / RARE:
            raise ConfigError(
                f"p99 = {self.p99:g} is impossible with a mean of {self.mean:g}; the 99th percentile must be at least "
                f"the mean and at most {1 / RARE:.0f} times the mean, here {self.mean / RARE:g}"
            )

    def draw(self, seed: tuple[int, ...], size: int) -> np.ndarray:
        """Draw values: ln x is normal with deviation s and mean ln m - s²/2, where 2.326 s - s²/2 = ln(p99 / m)."""
        if self.p99 is None or self.p99 == self.mean:
            return np.full(size, min(self.mean, self.limit))
        generator = np.random.default_rng(seed)
        # 2.326 s - s²/2 is largest at s = 2.326
        room = NORMAL_99**2 - 2 * math.log(self.p99 / self.mean)
        if room < 0:
            usual = max(self.mean - RARE * self.p99, 0.0) / (1 - RARE)
            drawn = np.where(generator.random(size) < RARE, self.p99, usual)
        else:
            deviation = NORMAL_99 - math.sqrt(room)
            drawn = generator.lognormal(math.log(self.mean) - deviation**2 / 2, deviation, size)
        return np.minimum(drawn, self.limit)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The simulated run; times are in seconds."""

    tasks: int
    group: int
    replicas: int
    rows: int
    """Number of sequences that a replica decodes together."""
    length: Spread
    """Tokens per completion."""
    prefill: float
    """Time to run a prompt on a replica, once per subgroup."""
    decode: float
    """The part of a decoding pass's time that does not depend on the number of rows."""
    decode_row: float
    """Additional time of a decoding pass per row."""
    cores: int
    check: Spread
    """Verification time per sample on one core; the limit is the timeout."""
    controller: float
    """Controller time per sample: half before verification, half after it."""
    learn: float
    publish: float
    staleness: int = 0
    seed: int = 0

    @property
    def samples(self) -> int:
        return self.tasks * self.group

    @property
    def subgroup(self) -> int:
        """Samples of a group that one replica decodes; groups are split if a replica would otherwise be idle."""
        return max(1, min(self.group, self.samples // max(self.replicas, 1)))


@dataclass(frozen=True, slots=True)
class Outcome:
    """Simulated times and counts, excluding the first steps."""

    step: float
    """Seconds from the end of one update to the end of the next."""
    busy: dict[str, float]
    """Share of the time that samplers, verifier cores, learner, controller and publication were busy."""
    filled: float
    """Share of the samplers' rows in use while they were busy."""
    stale: int
    """Maximum staleness of a sample at its update, in versions."""
    drawn: int
    verified: int
    learnt: int
    timeouts: int

    phases: dict[str, float]
    """Seconds of each phase of a step."""

    @property
    def bottleneck(self) -> str:
        """The part that is busy nearly all the time, or else the longest phase."""
        busiest = max(self.busy, key=lambda part: self.busy[part])
        return busiest if self.busy[busiest] >= SATURATED else max(self.phases, key=lambda phase: self.phases[phase])


class _Sample(NamedTuple):
    step: int
    length: float
    check: float


@dataclass(slots=True)
class _Replica:
    """Rows that are decoded together; ``progress`` is the number of decoding passes so far."""

    rows: list[tuple[float, int, _Sample]] = field(default_factory=list[tuple[float, int, _Sample]])
    """Heap of rows, ordered by the progress at which they finish."""
    progress: float = 0.0
    at: float = 0.0
    """Time at which ``progress`` is valid; in the future while prompts are running."""
    waiting: deque[_Sample] = field(default_factory=deque["_Sample"])
    """Samples of its subgroups that are waiting for a free row."""
    revision: int = 0
    """Number of changes; events scheduled under an earlier revision are ignored."""


@dataclass(slots=True)
class _Step:
    version: int
    """Version of the weights when sampling started."""
    started: float
    drawn: int = 0
    verdicts: int = 0
    sampled: float = 0.0
    verified: float = 0.0
    updated: float = 0.0
    stale: int = 0


class Simulation:
    """The state of a simulated run; see ``simulate``."""

    def __init__(self, pipeline: Pipeline, steps: int) -> None:
        self.pipeline, self.steps = pipeline, steps
        self.now = 0.0
        self.events: list[tuple[float, int, str, tuple[object, ...]]] = []
        self.order = count()
        self.queue: deque[list[_Sample]] = deque()
        self.replicas = [_Replica() for _ in range(min(pipeline.replicas, pipeline.samples))]
        self.cores = [0.0] * min(pipeline.cores, pipeline.samples * (pipeline.staleness + 1))
        self.controller = 0.0
        self.version = 0
        self.learning = False
        self.progress: dict[int, _Step] = {}
        self.started = 0
        self.updates = 0
        self.timeouts = 0
        self.rows = 0.0
        """Row-seconds in use."""
        self.work = dict.fromkeys(("samplers", "verifiers", "learner", "controller", "publication"), 0.0)

    def run(self) -> Outcome:
        self._start_steps()
        while self.events:
            self.now, _, kind, arguments = heapq.heappop(self.events)
            getattr(self, f"_on_{kind}")(*arguments)
        return self._outcome()

    def _schedule(self, time: float, kind: str, *arguments: object) -> None:
        heapq.heappush(self.events, (time, next(self.order), kind, arguments))

    # --- sampling ------------------------------------------------------------------------------------------------

    def _start_steps(self) -> None:
        """Start every step that the staleness limit allows, and assign its subgroups to the least loaded replicas."""
        while self.started < min(self.steps, self.version + self.pipeline.staleness + 1):
            self.progress[self.started] = _Step(self.version, self.now)
            self.queue.extend(_subgroups(self.pipeline, self.started))
            self.started += 1
        loads = [(len(replica.rows) + len(replica.waiting), number) for number, replica in enumerate(self.replicas)]
        free = [entry for entry in loads if entry[0] < self.pipeline.rows]
        heapq.heapify(free)
        touched: set[int] = set()
        while self.queue and free:
            load, number = heapq.heappop(free)
            subgroup = self.queue.popleft()
            self._prefill(self.replicas[number], subgroup)
            touched.add(number)
            if load + len(subgroup) < self.pipeline.rows:
                heapq.heappush(free, (load + len(subgroup), number))
        for number in sorted(touched):
            self._refill(number)

    def _prefill(self, replica: _Replica, subgroup: list[_Sample]) -> None:
        """Run the prompt of a subgroup and queue its samples for free rows."""
        self._advance(replica)
        replica.at += self.pipeline.prefill
        self.work["samplers"] += self.pipeline.prefill
        replica.waiting.extend(subgroup)

    def _refill(self, number: int) -> None:
        """Fill a replica's rows from its own subgroups, then from the queue, and schedule the next row to finish."""
        replica = self.replicas[number]
        while len(replica.rows) < self.pipeline.rows and (replica.waiting or self.queue):
            if not replica.waiting:
                self._prefill(replica, self.queue.popleft())
            sample = replica.waiting.popleft()
            self.progress[sample.step].drawn += 1
            heapq.heappush(replica.rows, (replica.progress + sample.length, next(self.order), sample))
        replica.revision += 1
        if replica.rows:
            left = max(replica.rows[0][0] - replica.progress, 0.0)
            self._schedule(replica.at + left * self._pace(len(replica.rows)), "decoded", number, replica.revision)

    def _pace(self, rows: int) -> float:
        return self.pipeline.decode + self.pipeline.decode_row * rows

    def _advance(self, replica: _Replica) -> None:
        """Advance ``progress`` to the current time."""
        if replica.rows and self.now > replica.at:
            elapsed = self.now - replica.at
            replica.progress += elapsed / self._pace(len(replica.rows))
            self.work["samplers"] += elapsed
            self.rows += elapsed * len(replica.rows)
        replica.at = max(replica.at, self.now)

    def _on_decoded(self, number: int, revision: int) -> None:
        replica = self.replicas[number]
        if revision != replica.revision:
            return
        self._advance(replica)
        replica.progress = max(replica.progress, replica.rows[0][0])
        while replica.rows and replica.rows[0][0] <= replica.progress * (1 + 1e-12):
            sample = heapq.heappop(replica.rows)[2]
            self.progress[sample.step].sampled = self.now
            self._control("check", sample)
        self._refill(number)

    # --- controller and verification -----------------------------------------------------------------------------

    def _control(self, kind: str, sample: _Sample) -> None:
        """Queue work at the controller, which handles one sample at a time."""
        cost = self.pipeline.controller / 2
        self.controller = max(self.controller, self.now) + cost
        self.work["controller"] += cost
        self._schedule(self.controller, kind, sample)

    def _on_check(self, sample: _Sample) -> None:
        free = heapq.heappop(self.cores)
        end = max(free, self.now) + sample.check
        heapq.heappush(self.cores, end)
        self.work["verifiers"] += sample.check
        self.timeouts += sample.check >= self.pipeline.check.limit
        self._schedule(end, "checked", sample)

    def _on_checked(self, sample: _Sample) -> None:
        self._control("verdict", sample)

    def _on_verdict(self, sample: _Sample) -> None:
        step = self.progress[sample.step]
        step.verdicts += 1
        step.verified = self.now
        self._learn()

    # --- learning ------------------------------------------------------------------------------------------------

    def _learn(self) -> None:
        step = self.progress.get(self.updates)
        if self.learning or step is None or step.verdicts < self.pipeline.samples:
            return
        self.learning = True
        step.stale = self.updates - step.version
        self.work["learner"] += self.pipeline.learn
        self._schedule(self.now + self.pipeline.learn, "updated")

    def _on_updated(self) -> None:
        self.progress[self.updates].updated = self.now
        self.updates += 1
        self.learning = False
        self.work["publication"] += self.pipeline.publish
        self._schedule(self.now + self.pipeline.publish, "published", self.updates)
        self._learn()

    def _on_published(self, version: int) -> None:
        self.version = max(self.version, version)
        self._start_steps()

    # --- outcome -------------------------------------------------------------------------------------------------

    def _outcome(self) -> Outcome:
        steps = [self.progress[number] for number in range(self.steps)]
        first = min(self.pipeline.staleness + 1, self.steps - 1)
        later = steps[first:]
        began = steps[first - 1].updated if first else 0.0
        capacity = {"samplers": len(self.replicas), "verifiers": self.pipeline.cores}
        total = steps[-1].updated
        full = min(self.pipeline.rows, -(-self.pipeline.samples // len(self.replicas)))
        return Outcome(
            step=(steps[-1].updated - began) / len(later),
            busy={part: min(work / (total * capacity.get(part, 1)), 1.0) for part, work in self.work.items()},
            filled=min(self.rows / max(self.work["samplers"] * full, 1e-300), 1.0),
            phases={
                "samplers": float(np.mean([step.sampled - step.started for step in later])),
                "verifiers": float(np.mean([max(step.verified - step.sampled, 0.0) for step in later])),
                "learner": self.pipeline.learn,
                "publication": self.pipeline.publish,
            },
            stale=max(step.stale for step in steps),
            drawn=sum(step.drawn for step in steps),
            verified=sum(step.verdicts for step in steps),
            learnt=self.updates * self.pipeline.samples,
            timeouts=self.timeouts,
        )


def _subgroups(pipeline: Pipeline, step: int) -> Iterator[list[_Sample]]:
    """Yield the samples of a step in subgroups, each decoded by one replica."""
    size, piece = pipeline.samples, pipeline.subgroup
    lengths = np.maximum(pipeline.length.draw((pipeline.seed, step, 0), size), 1.0).tolist()
    checks = pipeline.check.draw((pipeline.seed, step, 1), size).tolist()
    for start in range(0, size, pipeline.group):
        for first in range(start, start + pipeline.group, piece):
            last = min(first + piece, start + pipeline.group)
            yield [_Sample(step, lengths[index], checks[index]) for index in range(first, last)]


def simulate(pipeline: Pipeline, steps: int = 6) -> Outcome:
    """Simulate ``steps`` steps. The outcome excludes the first ``staleness + 1`` steps, which start on idle machines,
    so simulate more than twice as many.
    """
    return Simulation(pipeline, steps).run()
