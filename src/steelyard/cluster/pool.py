"""A verifier pool on a Ray cluster: one or more actors per node, each with its own worker processes.

Ray places the actors, transfers the items and reports lost actors and nodes. A verifier that crashes or exceeds a limit
is handled on its node, exactly as without a cluster.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from steelyard.cluster.connection import LOCAL, Connection
from steelyard.cluster.verifier_actor import VerifierActor
from steelyard.errors import VerifierError
from steelyard.types import SampleKey, Verdict
from steelyard.verification import Cause, Verifier
from steelyard.verification.background import BackgroundPool
from steelyard.verification.calls import Call, Settled
from steelyard.verification.transport import PackedVerifier, without_decisions

log = logging.getLogger("steelyard.verification")

CHUNKS_AHEAD = 4
"""Number of chunks that an actor holds: while one waits for its slowest item, the others keep the workers busy."""
CHUNK_SECONDS = 0.25
MAX_CHUNK = 512
MAX_RETRIED_CHUNK = 8
"""Maximum size of a chunk that starts with a call whose actor was lost."""
MAX_FAILED_STARTS = 10
"""How many actors in a row may be lost during startup."""
MAX_LOSSES = 5
"""How many times a call may lose its actor before it counts as unscored."""
WAKE_SECONDS = 0.05
UNPLACED_SECONDS = 60.0
"""How long an actor may wait for free cores before a warning is logged."""


@dataclass(eq=False, slots=True)
class _Actor:
    """An actor, its last known state, and the chunks assigned to it."""

    handle: Any
    ready: Any
    """Reference that resolves once the actor is running."""
    started: float
    up: bool = False
    process: int = 0
    warned: bool = False
    """Whether the warning that the actor cannot be placed has been logged."""
    chunks: dict[Any, _Chunk] = field(default_factory=dict[Any, "_Chunk"])


@dataclass(frozen=True, eq=False, slots=True)
class _Chunk:
    calls: tuple[Call, ...]
    sent: float


class RayPool(BackgroundPool):
    """Runs a verifier on ``workers`` cores of a cluster.

    By default the pool uses all cores except those ``kept`` for other actors of the run (one entry per actor), divided
    by ``shares``, the number of verifiers that run there in parallel.

    A thread sends chunks of calls and collects verdicts. Each actor holds at most a few chunks; the rest are queued
    here. A lost actor is replaced, and its calls are verified again elsewhere.
    """

    def __init__(
        self,
        verifier: Verifier,
        *,
        address: str = LOCAL,
        workers: int | None = None,
        workers_per_actor: int | None = None,
        shares: int = 1,
        kept: Sequence[float] = (),
        **settings: Any,
    ) -> None:
        packed = PackedVerifier.of(verifier)
        super().__init__(packed)
        self._connection = Connection(address)
        self.ray = self._connection.ray
        nodes = [int(node["Resources"].get("CPU", 0)) for node in self.ray.nodes() if node["Alive"]]
        count, self.workers_per_actor, self._cores = plan_actors(nodes, kept, workers, workers_per_actor, shares)
        self.workers = workers or count * self.workers_per_actor
        paths = [path or str(Path.cwd()) for path in sys.path]
        self._arguments = (packed, self.workers_per_actor, settings, paths, str(Path.cwd()))
        self._call_seconds = CHUNK_SECONDS
        self._lost_in_a_row = 0
        self._connection.request([self._cores] * count)
        self._actors = [self._start() for _ in range(count)]
        self._thread.start()

    def close(self) -> None:
        super().close()
        if self._connection.open:
            for actor in self._actors:
                self.ray.kill(actor.handle)
        self._connection.close()

    def actor_processes(self) -> list[int]:
        """Return the process ids of the running actors."""
        return [actor.process for actor in list(self._actors) if actor.up]

    def _wake(self) -> None:
        """Wake the thread, which sleeps while it has nothing to do."""
        with self._lock:
            self._lock.notify_all()

    def _work(self) -> None:
        while not self._closing:
            self._hand_out()
            self._collect()

    def _hand_out(self) -> None:
        for actor in sorted(self._actors, key=lambda actor: (len(actor.chunks), self._queue.held_by(actor))):
            while actor.up and len(actor.chunks) < CHUNKS_AHEAD and (calls := self._take_chunk(actor)):
                items = self.ray.put([[without_decisions(item) for item in call.items] for call in calls])
                reference = actor.handle.verify.remote(items)
                actor.chunks[reference] = _Chunk(calls, time.monotonic())

    def _take_chunk(self, actor: _Actor) -> tuple[Call, ...]:
        """Take enough calls to keep an actor's workers busy for ``CHUNK_SECONDS``, but no more than its share.

        A chunk that contains previously lost calls is smaller, so that its verdicts arrive sooner.
        """
        size = int(CHUNK_SECONDS * self.workers_per_actor / max(self._call_seconds, 1e-6))
        share = -(-len(self._queue) // (CHUNKS_AHEAD * len(self._actors)))
        size = max(1, min(MAX_CHUNK, size, share))
        taken: list[Call] = []
        while len(taken) < size and (call := self._take(actor)) is not None:
            taken.append(call)
            if call.before[0]:
                size = min(size, MAX_RETRIED_CHUNK)
        return tuple(taken)

    def _collect(self) -> None:
        """Process all finished references; wait briefly if there are none."""
        watched = {actor.ready: actor for actor in self._actors if not actor.up}
        watched |= {reference: actor for actor in self._actors for reference in actor.chunks}
        if not any(actor.chunks for actor in self._actors) and all(actor.up for actor in self._actors):
            with self._lock:
                if not self._queue and not self._closing:
                    self._lock.wait()
            return
        done, _ = self.ray.wait(list(watched), num_returns=len(watched), timeout=0, fetch_local=True)
        if not done:
            done, _ = self.ray.wait(list(watched), num_returns=1, timeout=WAKE_SECONDS)
        for reference in done:
            self._answered(watched[reference], reference)
        self._warn_of_unplaced_actors()

    def _warn_of_unplaced_actors(self) -> None:
        for actor in self._actors:
            if not actor.up and not actor.warned and time.monotonic() - actor.started > UNPLACED_SECONDS:
                actor.warned = True
                log.warning(
                    "a verification actor has waited %.0f s for a node with %d free cores. Run `ray status` to see "
                    "what is in use, or lower verify.workers",
                    UNPLACED_SECONDS,
                    self.workers_per_actor,
                )

    def _answered(self, actor: _Actor, reference: Any) -> None:
        if actor not in self._actors:  # the actor was already replaced and its calls requeued
            return
        try:
            answer = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            raise VerifierError(str(getattr(error, "cause", error))) from error
        except self.ray.exceptions.RayError as error:  # the actor, its node or its result was lost
            self._replace(actor, error)
            return
        if reference is actor.ready:
            actor.up, actor.process, self._lost_in_a_row = True, int(answer), 0
            return
        chunk = actor.chunks.pop(reference)
        result = json.loads(answer)
        seconds = (time.monotonic() - chunk.sent) * self.workers_per_actor / len(chunk.calls) / CHUNKS_AHEAD
        self._call_seconds += 0.2 * (seconds - self._call_seconds)
        self._count(result["counts"])
        self._deliver([(SampleKey(*key), Verdict.from_json(verdict)) for key, verdict in result["verdicts"]], actor)

    def _replace(self, actor: _Actor, error: Exception) -> None:
        """Replace a lost actor and retry its calls elsewhere, up to ``MAX_LOSSES`` times."""
        reason = str(error)
        self._lost_in_a_row += not actor.up
        if getattr(error, "actor_init_failed", False) or self._lost_in_a_row >= MAX_FAILED_STARTS:
            raise VerifierError(f"verification actors failed to start: {reason}")
        log.warning("a verification actor was lost and will be replaced: %s", reason.strip().splitlines()[0])
        with suppress(self.ray.exceptions.RayError):  # the actor may still be running despite a lost connection
            self.ray.kill(actor.handle)
        self._actors[self._actors.index(actor)] = self._start()
        calls = [call for chunk in actor.chunks.values() for call in chunk.calls]
        again, given_up = _after_loss(calls, reason)
        self._count({"pool/actors_lost": 1})
        self._worker_gone(actor)
        self._put_back(again)
        self._deliver(given_up)

    def _start(self) -> _Actor:
        options = {"num_cpus": self._cores, "max_concurrency": CHUNKS_AHEAD, "max_restarts": 0}
        handle = self.ray.remote(VerifierActor).options(**options).remote(*self._arguments)
        return _Actor(handle, handle.process.remote(), time.monotonic())


def plan_actors(
    nodes: Sequence[float], kept: Sequence[float], workers: int | None, per_actor: int | None, shares: int
) -> tuple[int, int, float]:
    """Return the number of actors, the workers per actor, and the cores that each actor requests.

    If ``workers`` is None, the actors request only the cores that are not ``kept``. The actors that need the kept cores
    start later; each is assumed to be placed on the node with the most free cores. The result includes at least one
    worker.
    """
    left = list(nodes)
    for cores in sorted(kept, reverse=True) if left and workers is None else ():
        left[left.index(max(left))] -= cores
    free = [int(cores) for cores in left if cores >= 1]
    wanted = workers or max(1, sum(free) // shares)
    per_actor = per_actor or min([wanted, *free])
    count = -(-wanted // per_actor)
    if workers is None:
        count = max(1, min(count, sum(cores // per_actor for cores in free) // shares))
    room = sum(free) if sum(nodes) else 1
    return count, per_actor, min(float(per_actor), room / shares)


def _after_loss(calls: Sequence[Call], reason: str) -> tuple[list[Call], Settled]:
    """Return the calls to retry after their actor was lost, and verdicts for those that reached ``MAX_LOSSES``."""
    loss = Verdict.unscored(Cause.LOST_WORKER, reason)
    again: list[Call] = []
    given_up: Settled = []
    for call in calls:
        losses = len(call.before[0]) + 1
        if losses < MAX_LOSSES:
            again.append(Call(call.items, tuple((*before, loss) for before in call.before)))
        else:
            given_up.extend((item.sample.key, replace(loss, tries=losses)) for item in call.items)
    return again, given_up
