"""A discrete-event simulation of a run: samplers, verifier cores, controller, learner and publication of weights.

A step's samples wait in one queue, in pieces of one group. Replicas pull pieces from it when they have rows to spare,
run the prompt of a piece once, and write all their rows at one pace: a pass gives every row a token and takes longer
the more rows there are (continuous batching). A finished sample goes through the controller to the verifier cores
(first come, first served), and its verdict back through the controller. When a step's last verdict is in, the learner
works, then the weights are published. Sampling of step k may begin when version k - staleness is there: 0 is the
synchronous loop.

What a sample is (its length, how long it takes to check) depends on its step and number alone, so that two simulations
of different hardware see the same samples.
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
"""A part that is at work for this share of the time is what the others wait for."""


NORMAL_99 = 2.326
"""99th percentile of the standard normal distribution."""
RARE = 0.01


@dataclass(frozen=True, slots=True)
class Spread:
    """A quantity by its mean and its 99th percentile, cut off at a limit; without p99 it is constant.

    Log-normal as far as one has such a tail, p99 up to e^2.7 = 15 times the mean; beyond that one in a hundred is p99
    and all others are equal.
    """

    mean: float
    p99: float | None = None
    limit: float = math.inf

    def __post_init__(self) -> None:
        if self.p99 is not None and not self.mean <= self.p99 <= self.mean / RARE:
            raise ConfigError(
                f"99% below {self.p99:g} and a mean of {self.mean:g} do not go together: the 99th percentile is at "
                f"least the mean and at most {1 / RARE:.0f} times as much, here {self.mean / RARE:g}"
            )

    def draw(self, seed: tuple[int, ...], size: int) -> np.ndarray:
        """ln x is normal with deviation s and mean ln m - s²/2, where 2.326 s - s²/2 = ln(p99 / m)."""
        if self.p99 is None or self.p99 == self.mean:
            return np.full(size, min(self.mean, self.limit))
        generator = np.random.default_rng(seed)
        # 2.326 s - s²/2 has its largest value at s = 2.326
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
    """What the simulation needs to know of a run, in seconds."""

    tasks: int
    group: int
    replicas: int
    rows: int
    """Sequences that a replica writes at once."""
    length: Spread
    """Tokens of a completion."""
    prefill: float
    """A prompt on a replica; paid once for a piece of a group."""
    decode: float
    """A pass through the model that gives each row a token: the part that does not depend on how many rows."""
    decode_row: float
    """And the part for each row."""
    cores: int
    check: Spread
    """Seconds of a core for a sample; the limit is the time-out."""
    controller: float
    """Seconds of the controller for a sample, half on its way to the checker and half on its way back."""
    learn: float
    publish: float
    staleness: int = 0
    seed: int = 0

    @property
    def samples(self) -> int:
        return self.tasks * self.group

    @property
    def piece(self) -> int:
        """Samples of a group that stay together: as many as leave no replica without work."""
        return max(1, min(self.group, self.samples // max(self.replicas, 1)))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened, after the first steps."""

    step: float
    """Seconds from the end of one update to the end of the next."""
    busy: dict[str, float]
    """Share of the time that samplers, verifier cores, learner, controller and publication were at work."""
    filled: float
    """Share of the samplers' rows in use, while they were at work."""
    stale: int
    """The most versions that a sample was behind when its update began."""
    drawn: int
    judged: int
    learnt: int
    timeouts: int

    phases: dict[str, float]
    """Seconds of the phases of a step, one after the other."""

    @property
    def bottleneck(self) -> str:
        """What is at work nearly all the time; if nothing is, the longest phase."""
        busiest = max(self.busy, key=lambda part: self.busy[part])
        return busiest if self.busy[busiest] >= SATURATED else max(self.phases, key=lambda phase: self.phases[phase])


class _Sample(NamedTuple):
    step: int
    length: float
    check: float


@dataclass(slots=True)
class _Replica:
    """Rows that advance together; ``progress`` counts the passes made since the beginning."""

    rows: list[tuple[float, int, _Sample]] = field(default_factory=list[tuple[float, int, _Sample]])
    """Heap by the progress at which each is finished."""
    progress: float = 0.0
    at: float = 0.0
    """When ``progress`` was right; later than now while prompts are being run."""
    waiting: deque[_Sample] = field(default_factory=deque["_Sample"])
    """Samples of its pieces for which it has no row yet."""
    turn: int = 0
    """Counts changes; an event of an earlier turn is void."""


@dataclass(slots=True)
class _Step:
    versions: int
    """Version of the weights its sampling began with."""
    begun: float
    drawn: int = 0
    judged: int = 0
    sampled: float = 0.0
    verified: float = 0.0
    updated: float = 0.0
    stale: int = 0


class Simulation:
    """One run of so many steps; see ``simulate``."""

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
        self.done: dict[int, _Step] = {}
        self.opened = 0
        self.updates = 0
        self.timeouts = 0
        self.rows = 0.0
        """Rows in use, integrated over time."""
        self.work = dict.fromkeys(("samplers", "verifiers", "learner", "controller", "publication"), 0.0)

    def run(self) -> Outcome:
        self._open()
        while self.events:
            self.now, _, kind, what = heapq.heappop(self.events)
            getattr(self, f"_on_{kind}")(*what)
        return self._outcome()

    def _at(self, time: float, kind: str, *what: object) -> None:
        heapq.heappush(self.events, (time, next(self.order), kind, what))

    # --- sampling ------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Let every step begin that the staleness allows, and hand its pieces out, always to the least loaded."""
        while self.opened < min(self.steps, self.version + self.pipeline.staleness + 1):
            self.done[self.opened] = _Step(self.version, self.now)
            self.queue.extend(_pieces(self.pipeline, self.opened))
            self.opened += 1
        loads = [(len(replica.rows) + len(replica.waiting), number) for number, replica in enumerate(self.replicas)]
        free = [entry for entry in loads if entry[0] < self.pipeline.rows]
        heapq.heapify(free)
        touched: set[int] = set()
        while self.queue and free:
            load, number = heapq.heappop(free)
            piece = self.queue.popleft()
            self._receive(self.replicas[number], piece)
            touched.add(number)
            if load + len(piece) < self.pipeline.rows:
                heapq.heappush(free, (load + len(piece), number))
        for number in sorted(touched):
            self._go_on(number)

    def _receive(self, replica: _Replica, piece: list[_Sample]) -> None:
        """Run the prompt of a piece; its samples take rows as there are any."""
        self._advance(replica)
        replica.at += self.pipeline.prefill
        self.work["samplers"] += self.pipeline.prefill
        replica.waiting.extend(piece)

    def _go_on(self, number: int) -> None:
        """Fill the rows of a replica, from its own pieces and then from the queue, and say when the next one ends."""
        replica = self.replicas[number]
        while len(replica.rows) < self.pipeline.rows and (replica.waiting or self.queue):
            if not replica.waiting:
                self._receive(replica, self.queue.popleft())
            sample = replica.waiting.popleft()
            self.done[sample.step].drawn += 1
            heapq.heappush(replica.rows, (replica.progress + sample.length, next(self.order), sample))
        replica.turn += 1
        if replica.rows:
            left = max(replica.rows[0][0] - replica.progress, 0.0)
            self._at(replica.at + left * self._pace(len(replica.rows)), "written", number, replica.turn)

    def _pace(self, rows: int) -> float:
        return self.pipeline.decode + self.pipeline.decode_row * rows

    def _advance(self, replica: _Replica) -> None:
        """Bring ``progress`` up to now."""
        if replica.rows and self.now > replica.at:
            elapsed = self.now - replica.at
            replica.progress += elapsed / self._pace(len(replica.rows))
            self.work["samplers"] += elapsed
            self.rows += elapsed * len(replica.rows)
        replica.at = max(replica.at, self.now)

    def _on_written(self, number: int, turn: int) -> None:
        replica = self.replicas[number]
        if turn != replica.turn:
            return
        self._advance(replica)
        replica.progress = max(replica.progress, replica.rows[0][0])
        while replica.rows and replica.rows[0][0] <= replica.progress * (1 + 1e-12):
            sample = heapq.heappop(replica.rows)[2]
            self.done[sample.step].sampled = self.now
            self._control("check", sample)
        self._go_on(number)

    # --- controller and checking ---------------------------------------------------------------------------------

    def _control(self, kind: str, sample: _Sample) -> None:
        """The controller takes one thing after the other."""
        cost = self.pipeline.controller / 2
        self.controller = max(self.controller, self.now) + cost
        self.work["controller"] += cost
        self._at(self.controller, kind, sample)

    def _on_check(self, sample: _Sample) -> None:
        free = heapq.heappop(self.cores)
        end = max(free, self.now) + sample.check
        heapq.heappush(self.cores, end)
        self.work["verifiers"] += sample.check
        self.timeouts += sample.check >= self.pipeline.check.limit
        self._at(end, "checked", sample)

    def _on_checked(self, sample: _Sample) -> None:
        self._control("verdict", sample)

    def _on_verdict(self, sample: _Sample) -> None:
        step = self.done[sample.step]
        step.judged += 1
        step.verified = self.now
        self._learn()

    # --- learning ------------------------------------------------------------------------------------------------

    def _learn(self) -> None:
        step = self.done.get(self.updates)
        if self.learning or step is None or step.judged < self.pipeline.samples:
            return
        self.learning = True
        step.stale = self.updates - step.versions
        self.work["learner"] += self.pipeline.learn
        self._at(self.now + self.pipeline.learn, "updated")

    def _on_updated(self) -> None:
        self.done[self.updates].updated = self.now
        self.updates += 1
        self.learning = False
        self.work["publication"] += self.pipeline.publish
        self._at(self.now + self.pipeline.publish, "published", self.updates)
        self._learn()

    def _on_published(self, version: int) -> None:
        self.version = max(self.version, version)
        self._open()

    # --- what came of it -----------------------------------------------------------------------------------------

    def _outcome(self) -> Outcome:
        steps = [self.done[number] for number in range(self.steps)]
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
                "samplers": float(np.mean([step.sampled - step.begun for step in later])),
                "verifiers": float(np.mean([max(step.verified - step.sampled, 0.0) for step in later])),
                "learner": self.pipeline.learn,
                "publication": self.pipeline.publish,
            },
            stale=max(step.stale for step in steps),
            drawn=sum(step.drawn for step in steps),
            judged=sum(step.judged for step in steps),
            learnt=self.updates * self.pipeline.samples,
            timeouts=self.timeouts,
        )


def _pieces(pipeline: Pipeline, step: int) -> Iterator[list[_Sample]]:
    """The samples of a step, those of a group in pieces that one replica writes."""
    size, piece = pipeline.samples, pipeline.piece
    lengths = np.maximum(pipeline.length.draw((pipeline.seed, step, 0), size), 1.0).tolist()
    checks = pipeline.check.draw((pipeline.seed, step, 1), size).tolist()
    for start in range(0, size, pipeline.group):
        for first in range(start, start + pipeline.group, piece):
            last = min(first + piece, start + pipeline.group)
            yield [_Sample(step, lengths[index], checks[index]) for index in range(first, last)]


def simulate(pipeline: Pipeline, steps: int = 6) -> Outcome:
    """Run it for so many steps. What is reported leaves out the first ones (one more than the staleness): they begin
    at once with nothing under way, so there should be more than twice as many.
    """
    return Simulation(pipeline, steps).run()
