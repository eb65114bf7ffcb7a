"""The pool of worker processes: calls go to whoever is free, verdicts come back, whatever a verifier does."""

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
from steelyard.verification.processes.handle import Answered, Ended, Event, WorkerHandle
from steelyard.verification.processes.keeper import Setup
from steelyard.verification.processes.limits import Limits, Recycling
from steelyard.verification.processes.worker import Rules
from steelyard.verification.transport import PackedVerifier

AHEAD_SECONDS = 0.01
"""How much work a worker holds beyond the call it is at: enough never to wait, too little to keep others waiting."""
MOST_AHEAD = 32
MAX_FAILED_STARTS = 3


class ProcessPool(BackgroundPool):
    """Runs a verifier in ``workers`` processes of its own (default: one a core).

    The pool's thread hands out calls, enforces time limits and collects verdicts; nobody else touches the handles.
    """

    def __init__(
        self,
        verifier: Verifier | PackedVerifier,
        *,
        workers: int | None = None,
        limits: Limits | None = None,
        recycling: Recycling | None = None,
        blame: Blame | None = None,
        keep_children: bool = False,
        preload: bool = True,
        listener: Callable[[Settled], None] | None = None,
    ) -> None:
        packed = PackedVerifier.of(verifier) if isinstance(verifier, Verifier) else verifier
        super().__init__(packed, listener)
        self.workers = workers or cores()
        self.limits = limits or Limits()
        self.blame = (blame or Blame()).with_outcomes(packed.blame)
        rules = Rules(self.limits, recycling or Recycling(), keep_children)
        self._setup = Setup(packed.payload, rules, str(Path.cwd()), preload)
        self._call_seconds = AHEAD_SECONDS
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._ear.setblocking(False)
        self._thread.start()

    def close(self) -> None:
        super().close()
        self._bell.close()
        self._ear.close()

    def _wake(self) -> None:
        with suppress(OSError):  # it has been rung often enough, or is gone
            self._bell.send(b"\0")

    def _work(self) -> None:
        handles: list[WorkerHandle] = []
        try:
            handles.extend(WorkerHandle(self._setup, self.limits.seconds) for _ in range(self.workers))
            while not self._closing:
                self._hand_out(handles)
                for worker, event in self._wait(handles):
                    self._handle(worker, event)
        finally:
            for worker in handles:
                worker.close()
            for worker in handles:
                worker.wait_closed()

    def _hand_out(self, handles: Sequence[WorkerHandle]) -> None:
        """One call after the other to the worker with the fewest, until all have enough or none is left."""
        free = [worker for worker in handles if worker.open]
        while free:
            worker = min(free, key=lambda worker: len(worker.calls))
            call = None
            if len(worker.calls) < self._enough(len(handles)):
                call = self._take(worker if len(handles) > 1 else None)
            if call is None:
                free.remove(worker)
            else:
                worker.give(call)

    def _enough(self, handles: int) -> int:
        """How many calls a worker should have: more than one only if they are short, or if there are plenty, so that it
        need not wait for this thread, and nobody for a worker with a long row.
        """
        short = int(AHEAD_SECONDS / max(self._call_seconds, 1e-6))
        return min(MOST_AHEAD, 1 + max(short, int(len(self._queue) >= handles)))

    def _wait(self, handles: Sequence[WorkerHandle]) -> Iterator[tuple[WorkerHandle, Event]]:
        """What happens next: messages, ends, limits that were passed."""
        selector = self._selector(handles)
        deadlines = [worker.deadline for worker in handles if worker.deadline is not None]
        pause = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        for key, mask in selector.select(pause):
            if key.data is None:
                self._ear.recv(4096)
                continue
            if mask & selectors.EVENT_WRITE:
                key.data.write()
            if mask & selectors.EVENT_READ and isinstance(key.fileobj, socket.socket):
                yield from ((key.data, event) for event in key.data.read(key.fileobj))
        now = time.monotonic()
        for worker in handles:
            if worker.deadline is not None and worker.deadline <= now:
                yield from ((worker, event) for event in worker.overdue())

    def _selector(self, handles: Sequence[WorkerHandle]) -> selectors.BaseSelector:
        selector = selectors.PollSelector()
        selector.register(self._ear, selectors.EVENT_READ)
        for worker in handles:
            for connection, writing in worker.sockets:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
                selector.register(connection, events, worker)
        return selector

    def _handle(self, worker: WorkerHandle, event: Event) -> None:
        if isinstance(event, Answered):
            self._call_seconds += 0.05 * (event.seconds - self._call_seconds)
            self._settle(worker, event.call, event.verdicts)
        elif isinstance(event, Ended):
            self._worker_ended(worker, event)
        elif not worker.was_ready or worker.failed_starts >= MAX_FAILED_STARTS:
            raise VerifierError(f"the verifier {self.verifier.name} does not start in a worker: {event.reason}")

    def _worker_ended(self, worker: WorkerHandle, event: Ended) -> None:
        if worker.failed_starts >= MAX_FAILED_STARTS:
            reason = event.accident.reason if event.accident is not None else ""
            raise VerifierError(f"workers for {self.verifier.name} end before they are ready: {reason}")
        self._put_back(event.untouched)
        if event.accident is not None:
            self._count({"pool/workers_lost": 1})
            if event.call is not None:
                self._settle(worker, event.call, [event.accident] * len(event.call.items))

    def _settle(self, worker: WorkerHandle, call: Call, verdicts: Sequence[Verdict]) -> None:
        settled, again = settle(call, verdicts, self.verifier.mode, self.blame, self.verifier.floor)
        if again:
            self._put_back([replace(retry, avoid=worker) for retry in again])
            self._count({"pool/retried": len(again)})
            if self.workers == 1:
                worker.retire()  # the retry goes to its successor
        self._deliver(settled)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
