"""A ``Sampler`` on a Ray cluster: several replicas of an engine, each in its own actor.

Requests are distributed across the replicas, and samples stream back as they finish. Weights travel through Ray's
object store; the controller passes only a reference. A lost replica is replaced and loads the newest weights. Its
undelivered samples are drawn again, and no sample is delivered twice.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from steelyard.cluster.connection import LOCAL, START_SECONDS, Connection
from steelyard.errors import TrainingError
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.types import Sample, SampleKey

log = logging.getLogger(__name__)

CHUNKS_PER_REPLICA = 2
"""Number of chunks into which a replica's requests are divided, so that losing it does not lose all of them."""
MAX_LOSSES_IN_A_ROW = 5
"""How many replicas in a row may be lost without delivering a sample before the run stops."""
Named = Sequence[tuple[str, Tensor]]


class Engine(Protocol):
    """A sampler that can load new weights."""

    def load(self, weights: Named, version: int) -> None: ...

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]: ...


class SamplerActor:
    """The actor class: an engine in its own process, built on first use. It does not depend on Ray."""

    def __init__(self, build: Callable[[], Engine], paths: Sequence[str] = (), folder: str | None = None) -> None:
        sys.path.extend(path for path in paths if path not in sys.path)
        if folder is not None and Path(folder).is_dir():
            os.chdir(folder)
        self._build = build

    @cached_property
    def engine(self) -> Engine:
        return self._build()

    def process(self) -> int:
        """Return the process id; the call returns once the actor has been placed."""
        return os.getpid()

    def load(self, weights: Named, version: int) -> int:
        self.engine.load(weights, version)
        return version

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        yield from self.engine.sample(requests, decoding)


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
            unfinished = tuple(request for request in chunk.requests if not _complete(request, delivered))
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
        handle = self.ray.remote(SamplerActor).options(**self._options).remote(*self._arguments)
        replica = _Replica(handle, handle.process.remote())
        self._load(replica)
        return replica


def _split(requests: Sequence[SampleRequest], chunks: int) -> list[tuple[SampleRequest, ...]]:
    """Split requests into up to ``chunks`` contiguous, non-empty chunks of nearly equal size."""
    count = min(chunks, len(requests))
    bounds = [len(requests) * number // count for number in range(count + 1)] if count else []
    return [tuple(requests[low:high]) for low, high in itertools.pairwise(bounds)]


def _complete(request: SampleRequest, delivered: set[SampleKey]) -> bool:
    place = (request.step, request.slot, request.attempt)
    return all(SampleKey(*place, index) in delivered for index in range(request.count))


def _cause(error: Any) -> Exception:
    """Return the engine's own exception if Ray wrapped one, else Ray's error."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else error
