"""The pool on a Ray cluster: one actor a node or part of it, each with worker processes of its own.

Ray places the actors, moves the items and tells when an actor or its node is gone; what a verifier does to its process
is dealt with on the node, exactly as without a cluster.
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
from steelyard.cluster.station import Station
from steelyard.errors import VerifierError
from steelyard.types import SampleKey, Verdict
from steelyard.verification import Cause, Verifier
from steelyard.verification.background import BackgroundPool
from steelyard.verification.calls import Call, Settled
from steelyard.verification.transport import PackedVerifier, light

log = logging.getLogger("steelyard.verification")

CHUNKS_AHEAD = 4
"""Chunks that an actor has at a time: while one waits for its slowest item, others keep the workers busy."""
CHUNK_SECONDS = 0.25
MOST_IN_CHUNK = 512
LOST_IN_CHUNK = 8
MAX_FAILED_STARTS = 10
"""Actors in a row that are lost before they are up."""
LOSSES = 5
"""How often a call may be lost with its node before it counts as unscored."""
WAKE_SECONDS = 0.05
MISSING_SECONDS = 60.0


@dataclass(eq=False, slots=True)
class _Actor:
    """An actor, what it was last seen to be, and the chunks it has."""

    handle: Any
    ready: Any
    """Answered when the actor is up."""
    started: float
    up: bool = False
    process: int = 0
    missed: bool = False
    """It was said that it does not come."""
    chunks: dict[Any, _Chunk] = field(default_factory=dict[Any, "_Chunk"])


@dataclass(frozen=True, eq=False, slots=True)
class _Chunk:
    calls: tuple[Call, ...]
    sent: float


class RayPool(BackgroundPool):
    """Runs a verifier on ``workers`` cores of a cluster (default: all but those ``kept`` for other actors of the run,
    a figure for each; divided by ``shares``, the number of verifiers that run there at once).

    The pool's thread hands out chunks of calls and collects verdicts; at most a few chunks an actor are under way, the
    rest waits here. An actor that is lost is replaced, and what it had is judged again elsewhere.
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
        count, self.workers_per_actor, self._cores = lay_out(nodes, kept, workers, workers_per_actor, shares)
        self.workers = workers or count * self.workers_per_actor
        paths = [path or str(Path.cwd()) for path in sys.path]
        self._arguments = (packed, self.workers_per_actor, settings, paths, str(Path.cwd()))
        self._call_seconds = CHUNK_SECONDS
        self._lost_in_a_row = 0
        self._connection.want([self._cores] * count)
        self._actors = [self._start() for _ in range(count)]
        self._thread.start()

    def close(self) -> None:
        super().close()
        if self._connection.open:
            for actor in self._actors:
                self.ray.kill(actor.handle)
        self._connection.close()

    def actor_processes(self) -> list[int]:
        """Process ids of the actors that are up."""
        return [actor.process for actor in list(self._actors) if actor.up]

    def _wake(self) -> None:
        """The thread looks at the queue every moment; when there is nothing under way it waits to be told."""
        with self._lock:
            self._lock.notify_all()

    def _work(self) -> None:
        while not self._closing:
            self._hand_out()
            self._collect()

    def _hand_out(self) -> None:
        for actor in sorted(self._actors, key=lambda actor: len(actor.chunks)):
            while actor.up and len(actor.chunks) < CHUNKS_AHEAD and (calls := self._take_chunk()):
                items = self.ray.put([[light(item) for item in call.items] for call in calls])
                reference = actor.handle.judge.remote(items)
                actor.chunks[reference] = _Chunk(calls, time.monotonic())

    def _take_chunk(self) -> tuple[Call, ...]:
        """As many calls as keep an actor's workers busy for a moment, and no more than its share; few if the first was
        lost before, so that they are soon back.
        """
        size = int(CHUNK_SECONDS * self.workers_per_actor / max(self._call_seconds, 1e-6))
        share = -(-len(self._queue) // (CHUNKS_AHEAD * len(self._actors)))
        size = max(1, min(MOST_IN_CHUNK, size, share))
        taken: list[Call] = []
        while len(taken) < size and (call := self._take()) is not None:
            taken.append(call)
            if call.before[0]:
                size = min(size, LOST_IN_CHUNK)
        return tuple(taken)

    def _collect(self) -> None:
        """Whatever is done, or a short sleep until there is something to do."""
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
        self._miss_actors()

    def _miss_actors(self) -> None:
        """Say it when the cluster has no room for an actor, instead of waiting in silence."""
        for actor in self._actors:
            if not actor.up and not actor.missed and time.monotonic() - actor.started > MISSING_SECONDS:
                actor.missed = True
                log.warning(
                    "no node has had %d free cores for %.0f s, so a verification actor waits; `ray status` shows what "
                    "takes them, and verify.workers asks for fewer",
                    self.workers_per_actor,
                    MISSING_SECONDS,
                )

    def _answered(self, actor: _Actor, reference: Any) -> None:
        if actor not in self._actors:  # lost meanwhile; what it had was taken back
            return
        try:
            answer = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            raise VerifierError(str(getattr(error, "cause", error))) from error
        except self.ray.exceptions.RayError as error:  # the actor, its node, or the answer on the way
            self._lost(actor, error)
            return
        if reference is actor.ready:
            actor.up, actor.process, self._lost_in_a_row = True, int(answer), 0
            return
        chunk = actor.chunks.pop(reference)
        found = json.loads(answer)
        seconds = (time.monotonic() - chunk.sent) * self.workers_per_actor / len(chunk.calls) / CHUNKS_AHEAD
        self._call_seconds += 0.2 * (seconds - self._call_seconds)
        self._count(found["counts"])
        self._deliver([(SampleKey(*key), Verdict.from_json(verdict)) for key, verdict in found["verdicts"]])

    def _lost(self, actor: _Actor, error: Exception) -> None:
        """Replace the actor; what it had is judged elsewhere, unless that has happened too often."""
        reason = str(error)
        self._lost_in_a_row += not actor.up
        if getattr(error, "actor_init_failed", False) or self._lost_in_a_row >= MAX_FAILED_STARTS:
            raise VerifierError(f"no verification actor starts: {reason}")
        log.warning("a verification actor was lost and is replaced: %s", reason.strip().splitlines()[0])
        with suppress(self.ray.exceptions.RayError):  # it may be cut off and not dead
            self.ray.kill(actor.handle)
        self._actors[self._actors.index(actor)] = self._start()
        calls = [call for chunk in actor.chunks.values() for call in chunk.calls]
        again, given_up = _after_loss(calls, reason)
        self._count({"pool/actors_lost": 1})
        self._put_back(again)
        self._deliver(given_up)

    def _start(self) -> _Actor:
        options = {"num_cpus": self._cores, "max_concurrency": CHUNKS_AHEAD, "max_restarts": 0}
        handle = self.ray.remote(Station).options(**options).remote(*self._arguments)
        return _Actor(handle, handle.process.remote(), time.monotonic())


def lay_out(
    nodes: Sequence[float], kept: Sequence[float], workers: int | None, per_actor: int | None, shares: int
) -> tuple[int, int, float]:
    """How many actors, workers of each, and the cores that each asks for.

    If ``workers`` is left open, actors ask for no more than is left beside what others ask for, who come later and of
    whom each goes where most is free; one worker there is in any case.
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
    """Calls to be made again after their actor was lost, and verdicts for those to which it happened too often."""
    loss = Verdict.unscored(Cause.LOST_WORKER, reason)
    again: list[Call] = []
    given_up: Settled = []
    for call in calls:
        losses = len(call.before[0]) + 1
        if losses < LOSSES:
            again.append(Call(call.items, tuple((*before, loss) for before in call.before)))
        else:
            given_up.extend((item.sample.key, replace(loss, tries=losses)) for item in call.items)
    return again, given_up
