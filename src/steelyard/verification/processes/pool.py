"""A pool of worker processes, which survives crashes, hangs and memory exhaustion of the verifier."""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from steelyard.errors import VerifierError
from steelyard.types import Verdict
from steelyard.verification.background import BackgroundPool
from steelyard.verification.base import Verifier
from steelyard.verification.blame import Blame
from steelyard.verification.calls import Call, Settled, settle
from steelyard.verification.processes.forkserver import WorkerSetup
from steelyard.verification.processes.handle import CallVerified, Event, WorkerEnded, WorkerHandle
from steelyard.verification.processes.limits import Recycling, WorkerLimits
from steelyard.verification.processes.worker import WorkerRules
from steelyard.verification.transport import PackedVerifier

QUEUED_SECONDS = 0.01
"""Seconds of work queued at a worker beyond its current call: enough to keep it busy, too little to delay others."""
MAX_QUEUED_CALLS = 32
MAX_FAILED_STARTS = 3


class ProcessPool(BackgroundPool):
    """Runs a verifier in ``workers`` processes (default: one per core).

    The pool's thread dispatches calls, enforces time limits and collects verdicts. Only this thread uses the handles.
    """

    def __init__(
        self,
        verifier: Verifier | PackedVerifier,
        *,
        workers: int | None = None,
        limits: WorkerLimits | None = None,
        recycling: Recycling | None = None,
        blame: Blame | None = None,
        keep_children: bool = False,
        preload: bool = True,
        listener: Callable[[Settled], None] | None = None,
    ) -> None:
        packed = PackedVerifier.of(verifier) if isinstance(verifier, Verifier) else verifier
        super().__init__(packed, listener)
        self.workers = workers or cores()
        self.limits = limits or WorkerLimits()
        self.blame = (blame or Blame()).with_outcomes(packed.blame)
        rules = WorkerRules(self.limits, recycling or Recycling(), keep_children, packed.sessions)
        self._setup = WorkerSetup(packed.payload, rules, str(Path.cwd()), preload)
        self._call_seconds = QUEUED_SECONDS
        self._wake_sender, self._wake_receiver = socket.socketpair()
        self._wake_sender.setblocking(False)
        self._wake_receiver.setblocking(False)
        self._thread.start()

    def close(self) -> None:
        super().close()
        self._wake_sender.close()
        self._wake_receiver.close()

    def _wake(self) -> None:
        with suppress(OSError):  # socket closed, or buffer full, in which case the thread wakes up anyway
            self._wake_sender.send(b"\0")

    def _work(self) -> None:
        handles: list[WorkerHandle] = []
        try:
            handles.extend(WorkerHandle(self._setup, self.limits.seconds) for _ in range(self.workers))
            while not self._closing:
                self._dispatch(handles)
                for worker, event in self._wait(handles):
                    self._handle(worker, event)
        finally:
            for worker in handles:
                worker.close()
            for worker in handles:
                worker.wait_closed()

    def _dispatch(self, handles: Sequence[WorkerHandle]) -> None:
        """Give calls to the least busy worker, until all workers have enough or the queue is empty.

        Among equally busy workers, the one with the fewest sessions takes the call, so that sessions are spread.
        """
        free = [worker for worker in handles if worker.open]
        while free:
            worker = min(free, key=lambda worker: (len(worker.calls), self._queue.held_by(worker)))
            call = None
            if len(worker.calls) < self._target_calls(len(handles)):
                call = self._take(worker, avoid=len(handles) > 1)
            if call is None:
                free.remove(worker)
            else:
                worker.send_call(call)

    def _target_calls(self, handles: int) -> int:
        """Return how many calls a worker should hold.

        A worker holds more than one call only if calls are short or plentiful. It then does not have to wait for this
        thread, and no call waits behind a long one while other workers are idle.
        """
        queued = int(QUEUED_SECONDS / max(self._call_seconds, 1e-6))
        return min(MAX_QUEUED_CALLS, 1 + max(queued, int(len(self._queue) >= handles)))

    def _wait(self, handles: Sequence[WorkerHandle]) -> Iterator[tuple[WorkerHandle, Event]]:
        """Wait for the next events: messages, ended workers and exceeded time limits."""
        selector = self._selector(handles)
        deadlines = [worker.deadline for worker in handles if worker.deadline is not None]
        pause = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        for key, mask in selector.select(pause):
            if key.data is None:
                self._wake_receiver.recv(4096)
                continue
            if mask & selectors.EVENT_WRITE:
                key.data.write()
            if mask & selectors.EVENT_READ and isinstance(key.fileobj, socket.socket):
                yield from ((key.data, event) for event in key.data.read(key.fileobj))
        now = time.monotonic()
        for worker in handles:
            if worker.deadline is not None and worker.deadline <= now:
                yield from ((worker, event) for event in worker.on_deadline())

    def _selector(self, handles: Sequence[WorkerHandle]) -> selectors.BaseSelector:
        selector = selectors.PollSelector()
        selector.register(self._wake_receiver, selectors.EVENT_READ)
        for worker in handles:
            for connection, writing in worker.sockets:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
                selector.register(connection, events, worker)
        return selector

    def _handle(self, worker: WorkerHandle, event: Event) -> None:
        if isinstance(event, CallVerified):
            self._call_seconds += 0.05 * (event.seconds - self._call_seconds)
            self._settle(worker, event.call, event.verdicts)
            if not worker.open:
                self._worker_gone(worker)
        elif isinstance(event, WorkerEnded):
            self._worker_ended(worker, event)
        elif not worker.ever_ready or worker.failed_starts >= MAX_FAILED_STARTS:
            raise VerifierError(f"verifier {self.verifier.name} failed to start in a worker: {event.reason}")

    def _worker_ended(self, worker: WorkerHandle, event: WorkerEnded) -> None:
        if worker.failed_starts >= MAX_FAILED_STARTS:
            reason = event.failure.reason if event.failure is not None else ""
            raise VerifierError(
                f"verifier {self.verifier.name}: {worker.failed_starts} workers in a row failed to start: {reason}"
            )
        self._worker_gone(worker)
        self._put_back(event.unstarted)
        if event.failure is not None:
            self._count({"pool/workers_lost": 1})
            if event.call is not None:
                self._settle(worker, event.call, [event.failure] * len(event.call.items))

    def _settle(self, worker: WorkerHandle, call: Call, verdicts: Sequence[Verdict]) -> None:
        settled, retries = settle(call, verdicts, self.verifier.mode, self.blame, self.verifier.floor)
        if retries:
            self._put_back([replace(retry, avoid_worker=worker) for retry in retries])
            self._count({"pool/retried": len(retries)})
            if self.workers == 1:
                worker.retire()  # a new worker handles the retry
        self._deliver(settled, worker)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
