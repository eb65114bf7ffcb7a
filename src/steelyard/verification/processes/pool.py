"""The pool of worker processes: calls go to whoever is free, verdicts come back, whatever a verifier does."""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from steelyard.errors import VerifierError
from steelyard.types import Verdict
from steelyard.verification.background import BackgroundPool, Waiting
from steelyard.verification.base import Verifier
from steelyard.verification.blame import Blame
from steelyard.verification.calls import Call, Settled, settle
from steelyard.verification.processes.keeper import Setup
from steelyard.verification.processes.limits import Limits, Recycling
from steelyard.verification.processes.seat import Answered, Ended, Event, Seat
from steelyard.verification.processes.worker import Rules
from steelyard.verification.transport import PackedVerifier

AHEAD_SECONDS = 0.01
"""How much work a worker holds beyond the call it is at: enough never to wait, too little to keep others waiting."""
MOST_AHEAD = 32
STARTS_IN_VAIN = 3


class ProcessPool(BackgroundPool):
    """Runs a verifier in ``workers`` processes of its own (default: one a core).

    The pool's thread hands out calls, enforces time limits and collects verdicts; nobody else touches the seats.
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
        seats: list[Seat] = []
        try:
            seats.extend(Seat(self._setup, self.limits.seconds) for _ in range(self.workers))
            while not self._closing:
                self._hand_out(seats)
                for seat, event in self._wait(seats):
                    self._handle(seat, event)
        finally:
            for seat in seats:
                seat.close()
            for seat in seats:
                seat.wait_closed()

    def _hand_out(self, seats: Sequence[Seat]) -> None:
        """One call after the other to the worker with the fewest, until all have enough or none is left."""
        free = [seat for seat in seats if seat.open]
        while free:
            seat = min(free, key=lambda seat: len(seat.calls))
            call = None
            if len(seat.calls) < self._enough(len(seats)):
                call = self._take(seat if len(seats) > 1 else None)
            if call is None:
                free.remove(seat)
            else:
                seat.give(call)

    def _enough(self, seats: int) -> int:
        """How many calls a worker should have: more than one only if they are short, or if there are plenty, so that it
        need not wait for this thread, and nobody for a worker with a long row.
        """
        short = int(AHEAD_SECONDS / max(self._call_seconds, 1e-6))
        return min(MOST_AHEAD, 1 + max(short, int(len(self._queue) >= seats)))

    def _wait(self, seats: Sequence[Seat]) -> Iterator[tuple[Seat, Event]]:
        """What happens next: messages, ends, limits that were passed."""
        selector = self._selector(seats)
        deadlines = [seat.deadline for seat in seats if seat.deadline is not None]
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
        for seat in seats:
            if seat.deadline is not None and seat.deadline <= now:
                yield from ((seat, event) for event in seat.overdue())

    def _selector(self, seats: Sequence[Seat]) -> selectors.BaseSelector:
        selector = selectors.PollSelector()
        selector.register(self._ear, selectors.EVENT_READ)
        for seat in seats:
            for connection, writing in seat.sockets:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
                selector.register(connection, events, seat)
        return selector

    def _handle(self, seat: Seat, event: Event) -> None:
        if isinstance(event, Answered):
            self._call_seconds += 0.05 * (event.seconds - self._call_seconds)
            self._settle(seat, event.call, event.verdicts)
        elif isinstance(event, Ended):
            self._worker_ended(seat, event)
        elif not seat.was_ready or seat.started_in_vain >= STARTS_IN_VAIN:
            raise VerifierError(f"the verifier {self.verifier.name} does not start in a worker: {event.reason}")

    def _worker_ended(self, seat: Seat, event: Ended) -> None:
        if seat.started_in_vain >= STARTS_IN_VAIN:
            reason = event.accident.reason if event.accident is not None else ""
            raise VerifierError(f"workers for {self.verifier.name} end before they are ready: {reason}")
        self._put_back([Waiting(call) for call in event.untouched])
        if event.accident is not None:
            self._count({"pool/workers_lost": 1})
        call = event.call
        if call is None or event.accident is None:
            return
        self._settle(seat, call, [event.accident] * len(call.items))

    def _settle(self, seat: Seat, call: Call, verdicts: Sequence[Verdict]) -> None:
        settled, again = settle(call, verdicts, self.verifier.mode, self.blame, self.verifier.floor)
        self._again([Waiting(retry, avoid=seat) for retry in again])
        if again and self.workers == 1:
            seat.retire()  # another worker is one of this seat then
        self._deliver(settled)

    def _again(self, waiting: Sequence[Waiting]) -> None:
        if waiting:
            self._put_back(waiting)
            self._count({"pool/retried": len(waiting)})


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
