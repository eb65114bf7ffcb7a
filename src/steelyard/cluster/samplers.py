"""Samplers on a Ray cluster: replicas of an engine, each an actor, behind the ``Sampler`` protocol.

Requests are dealt out among the replicas and samples stream back as they finish. Weights go through Ray's object store:
the controller hands on a reference. A replica that is lost is replaced, given the newest weights, and what it had not
delivered is sampled again; a sample that was delivered is never taken twice.
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

SHARES = 2
"""Into how many shares the requests of a replica are divided, so that what a lost one had is not all of it."""
STARTS_IN_VAIN = 5
"""Losses in a row without a sample in between."""
Named = Sequence[tuple[str, Tensor]]


class Engine(Protocol):
    """A sampler that is handed its weights."""

    def load(self, weights: Named, version: int) -> None: ...

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]: ...


class SamplerStation:
    """The actor: an engine in a process of its own, built when it is first needed. It knows nothing of Ray."""

    def __init__(self, build: Callable[[], Engine], paths: Sequence[str] = (), folder: str | None = None) -> None:
        sys.path.extend(path for path in paths if path not in sys.path)
        if folder is not None and Path(folder).is_dir():
            os.chdir(folder)
        self._build = build

    @cached_property
    def engine(self) -> Engine:
        return self._build()

    def process(self) -> int:
        """The process id; answers when there is room for it."""
        return os.getpid()

    def load(self, weights: Named, version: int) -> int:
        self.engine.load(weights, version)
        return version

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        yield from self.engine.sample(requests, decoding)


@dataclass(eq=False, slots=True)
class _Share:
    """Requests that a replica works on, and the stream of what it makes."""

    requests: tuple[SampleRequest, ...]
    stream: Any = None


@dataclass(eq=False, slots=True)
class _Replica:
    handle: Any
    placed: Any
    """Answered when there is room for it."""
    given: Any = None
    """The publication that it was told to load last."""
    loading: Any = None
    """Answered when it has loaded it; None: it has. Until then it gets nothing to do."""
    shares: list[_Share] = field(default_factory=list[_Share])


class RaySampler:
    """Samples from ``replicas`` engines on a cluster; ``build`` makes one of them, in its process.

    ``weights`` gives what is to be published: named tensors, or a reference to them in Ray's object store.
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
        """A reference to the newest weights, and their version."""
        self._lost_in_a_row = 0
        self.lost = 0
        """Replicas lost and replaced so far."""
        paths = [path or str(Path.cwd()) for path in sys.path]
        self._arguments = (build, paths, str(Path.cwd()))
        self._options = {
            "num_cpus": cpus,
            "num_gpus": gpus,
            "max_restarts": 0,
            "scheduling_strategy": "SPREAD",
            "runtime_env": {"env_vars": dict(environment or {})},
        }
        self._connection.want([cpus] * replicas)
        self._replicas = [self._start() for _ in range(replicas)]
        try:
            self._require_room(replicas, START_SECONDS)
        except BaseException:
            self.close()
            raise

    def processes(self) -> list[int]:
        """Process ids of the replicas, once there is room for all of them."""
        return self.ray.get([replica.handle.process.remote() for replica in self._replicas])

    def publish(self, version: int) -> None:
        weights = self._weights()
        reference = weights if isinstance(weights, self.ray.ObjectRef) else self.ray.put(list(weights))
        self._published = reference, version
        up = [replica for replica in self._replicas if replica.loading is None]
        for replica in up:  # the others load it when they are up
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
        waiting = deque(_dealt(requests, SHARES * len(self._replicas)))
        taken: set[SampleKey] = set()
        try:
            while waiting or any(replica.shares for replica in self._replicas):
                self._hand_out(waiting, decoding)
                streams = {share.stream: (one, share) for one in self._replicas for share in one.shares}
                loading = {one.loading: one for one in self._replicas if one.loading is not None}
                ready, _ = self.ray.wait(
                    [*loading, *streams], num_returns=1, timeout=None if streams else START_SECONDS
                )
                if not ready:
                    self._require_room(1, 0.0)
                for answer in ready:
                    if answer in loading:
                        self._loaded(loading[answer])
                        continue
                    replica, share = streams[answer]
                    made = self._next(replica, share, waiting, taken)
                    if made is not None and made.key not in taken:
                        taken.add(made.key)
                        yield made
        finally:
            for replica in self._replicas:
                replica.shares.clear()

    def close(self) -> None:
        """End the processes; twice does no harm."""
        if self._connection.open:
            for replica in self._replicas:
                with suppress(self.ray.exceptions.RayError):
                    self.ray.kill(replica.handle)
        self._connection.close()

    def _require_room(self, least: int, within: float) -> None:
        """An error unless so many of the replicas are placed within so many seconds."""
        count = len(self._replicas)
        placed, _ = self.ray.wait([one.placed for one in self._replicas], num_returns=count, timeout=within)
        if len(placed) < least:
            raise TrainingError(
                f"no room for {count - len(placed)} of {count} samplers was found in {START_SECONDS:.0f} s; "
                "`ray status` shows what takes it, and cluster.samplers or verify.workers ask for less"
            )

    def _hand_out(self, waiting: deque[tuple[SampleRequest, ...]], decoding: Decoding) -> None:
        """One share each at a time: an engine fills its batch from a share by itself."""
        for replica in self._replicas:
            if waiting and replica.loading is None and not replica.shares:
                share = _Share(waiting.popleft())
                method = replica.handle.sample.options(num_returns="streaming")
                share.stream = method.remote(share.requests, decoding)
                replica.shares.append(share)

    def _next(
        self, replica: _Replica, share: _Share, waiting: deque[tuple[SampleRequest, ...]], taken: set[SampleKey]
    ) -> Sample | None:
        """The next sample of a stream; None at its end, and if the replica is lost."""
        try:
            made: Sample = self.ray.get(next(share.stream))
        except StopIteration:
            replica.shares.remove(share)
            return None
        except self.ray.exceptions.RayTaskError as error:
            raise _cause(error) from error
        except self.ray.exceptions.RayError as error:
            unfinished = tuple(request for request in share.requests if not _all_taken(request, taken))
            self._replace(replica, error)
            if unfinished:
                waiting.appendleft(unfinished)
            return None
        self._lost_in_a_row = 0
        return made

    def _load(self, replica: _Replica) -> None:
        """Tell it to load the newest weights, if there are any yet."""
        if self._published is not None:
            replica.given = self._published
            replica.loading = replica.handle.load.remote(*self._published)

    def _loaded(self, replica: _Replica) -> None:
        """It takes part once it has the newest weights; one that cannot load them is as good as lost."""
        try:
            self.ray.get(replica.loading)
        except self.ray.exceptions.RayError as error:
            self._replace(replica, error)
            return
        replica.loading = None
        if replica.given is not self._published:
            self._load(replica)

    def _replace(self, replica: _Replica, error: Exception) -> None:
        told = _cause(error)
        reason = (str(told).strip() or repr(told)).splitlines()[0]
        if getattr(error, "actor_init_failed", False):
            raise TrainingError(f"no sampler starts: {str(error).strip()}") from error
        self._lost_in_a_row += 1
        self.lost += 1
        if self._lost_in_a_row > STARTS_IN_VAIN:
            raise TrainingError(f"samplers are lost one after another, the last one so: {reason}") from error
        log.warning("a sampler was lost and is replaced: %s", reason)
        with suppress(self.ray.exceptions.RayError):  # it may be cut off and not dead
            self.ray.kill(replica.handle)
        self._replicas[self._replicas.index(replica)] = self._start()

    def _start(self) -> _Replica:
        """A new replica, which is to load the newest weights."""
        handle = self.ray.remote(SamplerStation).options(**self._options).remote(*self._arguments)
        replica = _Replica(handle, handle.process.remote())
        self._load(replica)
        return replica


def _dealt(requests: Sequence[SampleRequest], shares: int) -> list[tuple[SampleRequest, ...]]:
    """As many shares as asked, or one a request; neighbours stay together."""
    count = min(shares, len(requests))
    bounds = [len(requests) * number // count for number in range(count + 1)] if count else []
    return [tuple(requests[low:high]) for low, high in itertools.pairwise(bounds)]


def _all_taken(request: SampleRequest, taken: set[SampleKey]) -> bool:
    place = (request.step, request.slot, request.attempt)
    return all(SampleKey(*place, index) in taken for index in range(request.count))


def _cause(error: Any) -> Exception:
    """What the engine itself raised."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else error
