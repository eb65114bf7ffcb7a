"""Stop on a signal, after the current step is finished and saved."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Ctrl-C, a terminated job, and a closed terminal or connection."""


@contextmanager
def stopping_on_signals(request_stop: Callable[[], None], finishing: str = "step") -> Iterator[None]:
    """Call ``request_stop`` on the first signal and print a message to stderr; a second signal has its usual effect.

    An ignored signal (SIGHUP under nohup) stays ignored. Does nothing outside the main thread, because only the main
    thread can handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    handled = {number: handler for number, handler in before.items() if handler != signal.SIG_IGN}

    def on_signal(_number: int, _frame: object) -> None:
        request_stop()
        _reset(handled)
        threading.Thread(target=_acknowledge, args=(finishing,), name="acknowledge", daemon=True).start()

    for number in handled:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        _reset(handled)


def _acknowledge(finishing: str) -> None:
    """Print a message in a separate thread, because the interrupted code may hold the console or stderr lock."""
    with suppress(Exception):  # the message is optional, the stop is not
        sys.stderr.write(f"finishing this {finishing}; press Ctrl-C again to stop now\n")
        sys.stderr.flush()


def _reset(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


class StopRequest:
    """Records whether a stop was requested."""

    def __init__(self) -> None:
        self.requested = False

    def request(self) -> None:
        self.requested = True
