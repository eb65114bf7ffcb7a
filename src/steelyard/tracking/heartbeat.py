"""A sign of life in a log: one line when something takes long, and then rarely."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

FIRST_SECONDS = 30.0
"""How long something may take before a line says so."""
LONGEST_SECONDS = 600.0
"""The longest time between two such lines."""


class Heartbeat:
    """Calls ``say`` with the seconds since ``restart``: after ``first``, and then whenever they have doubled or 10
    minutes have passed.

    A thread looks at the clock, so work that reports nothing is reported too.
    """

    def __init__(
        self,
        say: Callable[[float], None],
        *,
        first: float = FIRST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        look_seconds: float = 1.0,
    ) -> None:
        self._say, self._first, self._clock, self._look_seconds = say, first, clock, look_seconds
        self._began, self._due = clock(), first
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def restart(self) -> None:
        """Something else has begun."""
        self._began, self._due = self._clock(), self._first
        if self._thread is None and not self._stopped.is_set():
            self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
            self._thread.start()

    def look(self) -> None:
        """Say so if it is time to."""
        lasted = self._clock() - self._began
        if lasted >= self._due:
            self._due = lasted + min(lasted, LONGEST_SECONDS)
            self._say(lasted)

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(self._look_seconds)  # not for ever: the reader of a pipe may be stuck
            self._thread = None

    def _run(self) -> None:
        with suppress(OSError, ValueError):  # nobody reads it any more
            while not self._stopped.wait(self._look_seconds):
                self.look()
