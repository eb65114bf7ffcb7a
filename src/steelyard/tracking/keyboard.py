"""Keeps the terminal from drawing ``^C`` into the panel when the user presses Ctrl-C."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import IO

try:
    import termios
except ImportError:  # Windows
    termios = None


def hide_control_keys(output: IO[str]) -> Callable[[], None]:
    """Stop the terminal from echoing control keys, and return the function that restores it.

    Does nothing unless input and output are a terminal and this process is in its foreground; the system would stop
    a background process that changes the terminal.
    """
    if termios is None or not _is_ours(output):
        return _nothing
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    hidden = [*before]
    hidden[3] &= ~termios.ECHOCTL
    termios.tcsetattr(keyboard, termios.TCSANOW, hidden)

    def restore() -> None:
        if termios is not None and _is_ours(output):
            termios.tcsetattr(keyboard, termios.TCSANOW, before)

    return restore


def _is_ours(output: IO[str]) -> bool:
    try:
        return output.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):  # closed, redirected, or not a file at all
        return False


def _nothing() -> None: ...
