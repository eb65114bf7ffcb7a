"""Reports at increasing intervals that long-running work is still in progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

FIRST_SECONDS = 30.0
"""Time until the first report."""
MAX_SECONDS = 600.0
"""Longest time between two reports."""


class Heartbeat:
    """Calls ``report`` with the seconds since ``restart``: after ``first`` seconds, then each time that number doubles.

    The interval never exceeds ``MAX_SECONDS``. A thread checks the clock, so the work itself need not report anything.
    """

    def __init__(
        self,
        report: Callable[[float], None],
        *,
        first: float = FIRST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        poll_seconds: float = 1.0,
    ) -> None:
        self._report, self._first, self._clock, self._poll_seconds = report, first, clock, poll_seconds
        self._began, self._due = clock(), first
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def restart(self) -> None:
        """Start counting from zero."""
        self._began, self._due = self._clock(), self._first
        if self._thread is None and not self._stopped.is_set():
            self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
            self._thread.start()

    def check(self) -> None:
        """Report if a report is due."""
        elapsed = self._clock() - self._began
        if elapsed >= self._due:
            self._due = elapsed + min(elapsed, MAX_SECONDS)
            self._report(elapsed)

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(self._poll_seconds)  # with a timeout: a write to a stalled pipe may block
            self._thread = None

    def _run(self) -> None:
        with suppress(OSError, ValueError):  # the output was closed
            while not self._stopped.wait(self._poll_seconds):
                self.check()
