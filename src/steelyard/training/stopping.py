"""Stopping on a signal: what is under way is finished and saved first."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Ctrl-C, the end of a job, and the end of a terminal or a connection."""


@contextmanager
def stopping_on_signals(ask: Callable[[], None], finishing: str = "step") -> Iterator[None]:
    """The first signal calls ``ask`` and is acknowledged on stderr; a second one acts as usual. A signal that is
    ignored (SIGHUP under nohup) stays ignored. Does nothing in a thread that cannot handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    handled = {number: handler for number, handler in before.items() if handler != signal.SIG_IGN}

    def on_signal(_number: int, _frame: object) -> None:
        ask()
        _reset(handled)
        threading.Thread(target=_acknowledge, args=(finishing,), name="acknowledge", daemon=True).start()

    for number in handled:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        _reset(handled)


def _acknowledge(finishing: str) -> None:
    """In a thread of its own: what the signal interrupted may hold the lock of the screen or of stderr."""
    with suppress(Exception):  # nobody reads it; the stop matters more
        sys.stderr.write(f"finishing this {finishing}; press Ctrl-C again to stop now\n")
        sys.stderr.flush()


def _reset(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


class StopRequest:
    """Whether somebody asked for a stop."""

    def __init__(self) -> None:
        self.asked = False

    def ask(self) -> None:
        self.asked = True
