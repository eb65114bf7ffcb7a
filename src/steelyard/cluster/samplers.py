"""A ``Sampler`` on a Ray cluster: several replicas of an engine, each in its own actor.

Requests are distributed across the replicas, and samples stream back as they finish. Weights travel through Ray's
object store; the controller passes only a reference. A lost replica is replaced and loads the newest weights. Its
undelivered samples are drawn again, and no sample is delivered twice.

An episode stays on its replica, whose cache holds its tokens. If the replica is lost, the episode continues on another
one from its tokens.
"""

from __future__ import annotations

import itertools
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from steelyard.cluster.connection import LOCAL, START_SECONDS, Connection
from steelyard.cluster.sampler_actor import Engine, SamplerActor
from steelyard.errors import TrainingError
from steelyard.sampling.base import Decoding, SampleRequest, TurnQueue
from steelyard.types import Sample, SampleKey

log = logging.getLogger(__name__)

CHUNKS_PER_REPLICA = 2
"""Number of chunks into which a replica's requests are divided, so that losing it does not lose all of them."""
MAX_LOSSES_IN_A_ROW = 5
"""How many replicas in a row may be lost without delivering a sample before the run stops."""
POLL_SECONDS = 0.01
"""How long to wait for a turn before sending the replies that have arrived to the replicas."""
REPLIES = "replies"
"""Concurrency group of the method that receives replies while a replica samples."""


@dataclass(eq=False, slots=True)
class _Chunk:
    """Requests assigned to a replica, and the stream of their samples."""

    requests: tuple[SampleRequest, ...]
    stream: Any = None


@dataclass(eq=False, slots=True)
class _Replica:
    handle: Any
    placed: Any
    """Reference that resolves once the replica has been placed."""
    requested: Any = None
    """The newest weights and version that the replica was asked to load."""
    loading: Any = None
    """Resolves once the weights are loaded; None if they already are. Until then the replica gets no requests."""
    chunks: list[_Chunk] = field(default_factory=list[_Chunk])


class RaySampler:
    """Samples from ``replicas`` engines on a cluster; ``build`` creates an engine in its actor's process.

    ``weights`` returns the weights to publish: named tensors, or a reference to them in Ray's object store.
    """

    def __init__(
        self,
        build: Callable[[], Engine],
        weights: Callable[[], Any],
        *,
        replicas: int = 1,
        address: str = LOCAL,
        cpus: float = 1.0,
        gpus: float = 0.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._connection = Connection(address)
        self.ray = self._connection.ray
        self._weights = weights
        self._published: tuple[Any, int] | None = None
        """Reference to the newest weights, and their version."""
        self._lost_in_a_row = 0
        self._calls = itertools.count()
        self.lost = 0
        """Number of replicas lost so far."""
        paths = [path or str(Path.cwd()) for path in sys.path]
        self._arguments = (build, paths, str(Path.cwd()))
        self._options = {
            "num_cpus": cpus,
            "num_gpus": gpus,
            "max_restarts": 0,
            "scheduling_strategy": "SPREAD",
            "runtime_env": {"env_vars": dict(environment or {})},
        }
        self._connection.request([cpus] * replicas)
        self._replicas = [self._start() for _ in range(replicas)]
        try:
            self._require_room(replicas, START_SECONDS)
        except BaseException:
            self.close()
            raise

    def processes(self) -> list[int]:
        """Return the process ids of the replicas, waiting until all are placed."""
        return self.ray.get([replica.handle.process.remote() for replica in self._replicas])

    def publish(self, version: int) -> None:
        weights = self._weights()
        reference = weights if isinstance(weights, self.ray.ObjectRef) else self.ray.put(list(weights))
        self._published = reference, version
        up = [replica for replica in self._replicas if replica.loading is None]
        for replica in up:  # the others load the weights once they are running
            self._load(replica)
        for replica in up:
            try:
                self.ray.get(replica.loading)
            except self.ray.exceptions.RayTaskError as error:
                raise _cause(error) from error
            except self.ray.exceptions.RayError as error:
                self._replace(replica, error)
            else:
                replica.loading = None

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        waiting = deque(_split(requests, CHUNKS_PER_REPLICA * len(self._replicas)))
        delivered: set[SampleKey] = set()
        try:
            while waiting or any(replica.chunks for replica in self._replicas):
                self._hand_out(waiting, decoding)
                streams = {chunk.stream: (replica, chunk) for replica in self._replicas for chunk in replica.chunks}
                loading = {replica.loading: replica for replica in self._replicas if replica.loading is not None}
                ready, _ = self.ray.wait(
                    [*loading, *streams], num_returns=1, timeout=None if streams else START_SECONDS
                )
                if not ready:
                    self._require_room(1, 0.0)
                for answer in ready:
                    if answer in loading:
                        self._loaded(loading[answer])
                        continue
                    replica, chunk = streams[answer]
                    sample = self._next(replica, chunk, waiting, delivered)
                    if sample is not None and sample.key not in delivered:
                        delivered.add(sample.key)
                        yield sample
        finally:
            for replica in self._replicas:
                replica.chunks.clear()

    def sample_turns(
        self, requests: Sequence[SampleRequest], decoding: Decoding, turns: TurnQueue
    ) -> Iterator[Sample | None]:
        """See :class:`EpisodeSampler`."""
        return _EpisodeStreams(self, decoding, turns, next(self._calls)).run(requests)

    def close(self) -> None:
        """End the processes. Closing twice is harmless."""
        if self._connection.open:
            for replica in self._replicas:
                with suppress(self.ray.exceptions.RayError):
                    self.ray.kill(replica.handle)
        self._connection.close()

    def _require_room(self, needed: int, timeout: float) -> None:
        """Raise an error unless at least ``needed`` replicas are placed within ``timeout`` seconds."""
        count = len(self._replicas)
        placed, _ = self.ray.wait([one.placed for one in self._replicas], num_returns=count, timeout=timeout)
        if len(placed) < needed:
            raise TrainingError(
                f"the cluster had no room for {count - len(placed)} of {count} samplers within {START_SECONDS:.0f} s. "
                "Run `ray status` to see what is in use, or lower cluster.samplers.replicas or verify.workers"
            )

    def _hand_out(self, waiting: deque[tuple[SampleRequest, ...]], decoding: Decoding) -> None:
        """Give each idle replica one chunk; an engine fills its batch from one chunk."""
        for replica in self._replicas:
            if waiting and replica.loading is None and not replica.chunks:
                chunk = _Chunk(waiting.popleft())
                method = replica.handle.sample.options(num_returns="streaming")
                chunk.stream = method.remote(chunk.requests, decoding)
                replica.chunks.append(chunk)

    def _next(
        self, replica: _Replica, chunk: _Chunk, waiting: deque[tuple[SampleRequest, ...]], delivered: set[SampleKey]
    ) -> Sample | None:
        """Return the next sample of a stream, or None if the stream has ended or the replica is lost."""
        try:
            sample: Sample = self.ray.get(next(chunk.stream))
        except StopIteration:
            replica.chunks.remove(chunk)
            return None
        except self.ray.exceptions.RayTaskError as error:
            raise _cause(error) from error
        except self.ray.exceptions.RayError as error:
            unfinished = tuple(missing for one in chunk.requests if (missing := _missing(one, delivered)) is not None)
            self._replace(replica, error)
            if unfinished:
                waiting.appendleft(unfinished)
            return None
        self._lost_in_a_row = 0
        return sample

    def _load(self, replica: _Replica) -> None:
        """Make the replica load the newest weights, if any were published."""
        if self._published is not None:
            replica.requested = self._published
            replica.loading = replica.handle.load.remote(*self._published)

    def _loaded(self, replica: _Replica) -> None:
        """Mark a replica as ready, unless newer weights were published; one that failed to load is replaced."""
        try:
            self.ray.get(replica.loading)
        except self.ray.exceptions.RayError as error:
            self._replace(replica, error)
            return
        replica.loading = None
        if replica.requested is not self._published:
            self._load(replica)

    def _replace(self, replica: _Replica, error: Exception) -> None:
        cause = _cause(error)
        reason = (str(cause).strip() or repr(cause)).splitlines()[0]
        if getattr(error, "actor_init_failed", False):
            raise TrainingError(f"samplers failed to start: {str(error).strip()}") from error
        self._lost_in_a_row += 1
        self.lost += 1
        if self._lost_in_a_row > MAX_LOSSES_IN_A_ROW:
            raise TrainingError(
                f"{self._lost_in_a_row} samplers in a row were lost before delivering a sample; last error: {reason}"
            ) from error
        log.warning("a sampler was lost and will be replaced: %s", reason)
        with suppress(self.ray.exceptions.RayError):  # the actor may still be running despite a lost connection
            self.ray.kill(replica.handle)
        self._replicas[self._replicas.index(replica)] = self._start()

    def _start(self) -> _Replica:
        """Start a replica and make it load the newest weights."""
        kind = self.ray.remote(concurrency_groups={REPLIES: 1})(SamplerActor)
        handle = kind.options(**self._options).remote(*self._arguments)
        replica = _Replica(handle, handle.process.remote())
        self._load(replica)
        return replica


@dataclass(eq=False, slots=True)
class _OpenEpisode:
    request: SampleRequest
    """The turn that is being sampled, or was sampled last."""
    replica: _Replica | None = None
    sampling: bool = True


class _EpisodeStreams:
    """Runs episodes on the replicas: each replica streams sampled turns back and receives the replies to them."""

    def __init__(self, sampler: RaySampler, decoding: Decoding, turns: TurnQueue, number: int) -> None:
        self.sampler, self.ray, self.decoding, self.turns, self.number = sampler, sampler.ray, decoding, turns, number
        self.open: dict[SampleKey, _OpenEpisode] = {}
        self.streams: dict[_Replica, Any] = {}
        self.waiting: deque[SampleRequest] = deque()
        """Turns without a replica."""

    def run(self, requests: Sequence[SampleRequest]) -> Iterator[Sample | None]:
        for request in requests:
            self.open |= {key: _OpenEpisode(replace(request, only=(key.sample,))) for key in request.keys}
        self.waiting.extend(requests)
        try:
            while self.open:
                self._pass_on()
                yield self._next()
        finally:
            for replica in self.streams:
                self._tell(replica, closed=True)

    def _pass_on(self) -> None:
        """Send new turns and the keys of ended episodes to the replicas on which those episodes run."""
        for request in self.turns.take():
            episode = self.open[request.keys[0]]
            episode.request, episode.sampling = request, True
            if episode.replica is None:
                self.waiting.append(request)
            else:
                self._tell(episode.replica, [request])
        for key in self.turns.take_ended():
            if (replica := self.open.pop(key).replica) is not None:
                self._tell(replica, ended=[key])
        self._hand_out()

    def _hand_out(self) -> None:
        """Distribute turns without a replica among the replicas that have loaded the weights."""
        ready = [replica for replica in self.sampler._replicas if replica.loading is None]
        if not self.waiting or not ready:
            return
        for replica, part in zip(ready, _split(list(self.waiting), len(ready)), strict=False):
            for request in part:
                for key in request.keys:
                    self.open[key].replica = replica
            self._tell(replica, part)
        self.waiting.clear()

    def _tell(
        self,
        replica: _Replica,
        requests: Sequence[SampleRequest] = (),
        ended: Sequence[SampleKey] = (),
        *,
        closed: bool = False,
    ) -> None:
        if replica not in self.streams:
            method = replica.handle.sample_turns.options(num_returns="streaming")
            self.streams[replica] = method.remote(self.number, self.decoding)
        method = replica.handle.receive.options(concurrency_group=REPLIES)
        method.remote(self.number, list(requests), list(ended), closed)

    def _next(self) -> Sample | None:
        """Return the next turn; None if there is none yet."""
        streams = {stream: replica for replica, stream in self.streams.items()}
        loading = {one.loading: one for one in self.sampler._replicas if one.loading is not None}
        timeout = POLL_SECONDS if streams else START_SECONDS
        ready, _ = self.ray.wait([*loading, *streams], num_returns=1, timeout=timeout)
        if not ready and not streams:
            self.sampler._require_room(1, 0.0)
        if not ready:
            return None
        if ready[0] in loading:
            self.sampler._loaded(loading[ready[0]])
            return None
        return self._read(streams[ready[0]], ready[0])

    def _read(self, replica: _Replica, stream: Any) -> Sample | None:
        try:
            sample: Sample = self.ray.get(next(stream))
        except self.ray.exceptions.RayTaskError as error:
            raise _cause(error) from error
        except self.ray.exceptions.RayError as error:
            del self.streams[replica]
            self._move(replica)
            self.sampler._replace(replica, error)
            return None
        self.sampler._lost_in_a_row = 0
        self.open[sample.key].sampling = False
        return sample

    def _move(self, lost: _Replica) -> None:
        """Move the episodes of a lost replica to other replicas, which repeat any unfinished turn."""
        for episode in self.open.values():
            if episode.replica is lost:
                episode.replica = None
                if episode.sampling:
                    self.waiting.append(episode.request)


def _split(requests: Sequence[SampleRequest], chunks: int) -> list[tuple[SampleRequest, ...]]:
    """Split requests into up to ``chunks`` contiguous, non-empty chunks of nearly equal size."""
    count = min(chunks, len(requests))
    bounds = [len(requests) * number // count for number in range(count + 1)] if count else []
    return [tuple(requests[low:high]) for low, high in itertools.pairwise(bounds)]


def _missing(request: SampleRequest, delivered: set[SampleKey]) -> SampleRequest | None:
    """Return a request for the samples that were not delivered."""
    left = tuple(key.sample for key in request.keys if key not in delivered)
    return replace(request, only=left) if left else None


def _cause(error: Any) -> Exception:
    """Return the engine's own exception if Ray wrapped one, else Ray's error."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else error
