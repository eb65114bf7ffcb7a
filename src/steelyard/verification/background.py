"""Base class of pools with workers: a thread that runs the workers, and its shared queue and results."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from steelyard.errors import VerifierError
from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import Item, Pool
from steelyard.verification.calls import Batcher, Call, CallQueue, Settled
from steelyard.verification.transport import PackedVerifier


class BackgroundPool(Pool, ABC):
    """A pool with a thread that processes the queue while the caller samples or trains.

    One lock protects the queue, the verdicts and the counters. Everything else is used only by the thread. The caller
    fetches verdicts with :meth:`completed`, or passes a ``listener``, which the thread calls with each batch of
    verdicts.
    """

    def __init__(self, verifier: PackedVerifier, listener: Callable[[Settled], None] | None = None) -> None:
        self.verifier = verifier
        self._listener = listener
        self._batcher = Batcher(verifier.mode)
        self._lock = threading.Condition()
        self._queue = CallQueue(verifier.sessions)
        self._ready: deque[tuple[SampleKey, Verdict]] = deque()
        self._outstanding = 0
        self._counts: dict[str, float] = {}
        self._broken: BaseException | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="verification", daemon=True)

    # --- called by others --------------------------------------------------------------------------------------------

    def submit(self, items: Sequence[Item]) -> None:
        with self._lock:
            self._outstanding += len(items)
            self._enqueue(self._batcher.add(items))

    def submit_calls(self, calls: Sequence[Call]) -> None:
        """Submit calls whose items are already grouped."""
        with self._lock:
            self._outstanding += sum(len(call.items) for call in calls)
            self._enqueue(calls)

    def completed(self, *, wait: bool | float) -> Iterator[tuple[SampleKey, Verdict]]:
        if wait:
            with self._lock:
                self._enqueue(self._batcher.flush())
        while True:
            with self._lock:
                self._wait_for_verdict(wait)
                self._raise_if_broken()
                available = deque(self._ready)
                self._ready.clear()
            if not available:
                return
            try:
                while available:
                    yield available.popleft()
            finally:  # if the consumer stops early, the rest stays available
                with self._lock:
                    self._ready.extendleft(reversed(available))

    def _wait_for_verdict(self, wait: bool | float) -> None:
        """Wait until a verdict is available or none is outstanding; a number is a timeout in seconds."""
        until = None if isinstance(wait, bool) else time.monotonic() + wait
        while wait and self._outstanding and not self._ready and self._broken is None:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return
            self._lock.wait(left)

    def metrics(self) -> dict[str, float]:
        """Return the numbers of lost workers and of retried calls since this method was last called."""
        with self._lock:
            counts, self._counts = self._counts, {}
        return counts

    def require_working(self) -> None:
        """Raise the error that ended the thread, if any."""
        with self._lock:
            self._raise_if_broken()

    def close(self) -> None:
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self._wake()
        self._thread.join()

    def _enqueue(self, calls: Iterable[Call]) -> None:
        self._raise_if_broken()
        self._queue.add(calls)
        self._wake()

    def _raise_if_broken(self) -> None:
        if self._closing:
            raise VerifierError("the verification pool of an ended run is closed: build a new trainer to continue")
        if self._broken is not None:
            raise VerifierError(str(self._broken)) from self._broken

    # --- in the thread ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _work(self) -> None:
        """Take calls from the queue and deliver verdicts until the pool is closing."""

    @abstractmethod
    def _wake(self) -> None:
        """Notify the thread that the queue has changed or the pool is closing."""

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised in the caller, which would wait forever otherwise
            with self._lock:
                self._broken = error
                self._lock.notify_all()

    def _take(self, worker: object, *, avoid: bool = False) -> Call | None:
        """Remove and return the next call for this worker; with ``avoid``, none that has already failed on it."""
        with self._lock:
            return self._queue.take(worker, avoid=avoid)

    def _put_back(self, calls: Sequence[Call]) -> None:
        """Put calls back at the front of the queue, in this order."""
        with self._lock:
            self._queue.put_back(calls)

    def _worker_gone(self, worker: object) -> None:
        """Let other workers take the calls that wait for this worker, whose sessions are lost."""
        with self._lock:
            self._queue.worker_ended(worker)

    def _deliver(self, settled: Settled, worker: object = None) -> None:
        """Deliver final verdicts and replies from ``worker``."""
        with self._lock:
            self._queue.settled(worker, settled)
            self._outstanding -= len(settled)
            if self._listener is None:
                self._ready.extend(settled)
                self._lock.notify_all()
        if self._listener is not None:
            self._listener(settled)

    def _count(self, counts: Mapping[str, float]) -> None:
        with self._lock:
            for name, number in counts.items():
                self._counts[name] = self._counts.get(name, 0.0) + number
