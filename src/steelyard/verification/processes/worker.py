"""The worker process, in which the verifier runs. The worker can reach the run only through JSON messages."""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import Cause, Item, Verifier
from steelyard.verification.processes.descendants import (
    adopt_orphans,
    children,
    die_with_parent,
    end_children,
    has_children,
)
from steelyard.verification.processes.frames import json_frame, receive
from steelyard.verification.processes.limits import Recycling, WorkerLimits
from steelyard.verification.processes.output import WorkerOutput
from steelyard.verification.safe_verify import safe_verify, traceback_tail

NO_CONNECTION = 217
"""Exit code of a worker that has lost its connection to the run because the verifier closed it."""
CALL_NUMBER = struct.Struct("<Q")
"""Call number that precedes the items of a request; the answer repeats it."""
MAX_LEFTOVER_THREADS = 32
"""Number of threads that a verifier may leave running, for example an event loop. A larger number counts as a leak."""
CLOSING_SECONDS = 2.0
"""Time allowed for closing the sessions of a worker that ends."""


@dataclass(frozen=True, slots=True)
class WorkerRules:
    """Limits and rules of a worker."""

    limits: WorkerLimits
    recycling: Recycling
    keep_children: bool = False
    """Whether processes started by the verifier run as long as the worker, instead of ending with the item."""
    sessions: bool = False
    """Whether the verifier keeps sessions, which are closed before the worker ends."""


def serve(
    verifier: Verifier, connection: socket.socket, output: WorkerOutput, rules: WorkerRules, forkserver: int
) -> NoReturn:
    """Verify requests until the connection closes; never returns. ``forkserver`` is the parent's process id."""
    die_with_parent(forkserver)
    adopt_orphans()
    faulthandler.enable(output.descriptor)
    rules.limits.apply()
    state, processes = _ProcessState(output), _Processes(verifier, rules)
    own = (os.getpid(), os.fstat(connection.fileno()).st_ino)
    verified = 0
    connection.sendall(json_frame({"ready": os.getpid()}))
    while (request := receive(connection)) is not None:
        output.start()
        number, payload = CALL_NUMBER.unpack_from(request)[0], request[CALL_NUMBER.size :]
        verdicts, healthy, keys = _verify(verifier, payload, rules.limits)
        try:
            if (os.getpid(), os.fstat(connection.fileno()).st_ino) != own:
                os._exit(NO_CONNECTION)  # this is a fork made by the verifier, or the descriptor was replaced
            _flush()
            if output.overflowed:
                reason = f"printed more than {output.limit} bytes, ending with:\n{output.tail()}"
                verdicts = [Verdict.unscored(Cause.OUTPUT_OVERFLOW, reason)] * len(verdicts)
            processes.end_leftover(keys)
            verified += len(verdicts)
            last = not healthy or not state.restore() or rules.recycling.due(verified)
            connection.sendall(_answer(number, verdicts, last))
        except OSError:  # the verifier closed the connection
            os._exit(NO_CONNECTION)
        if last:
            break
    if rules.sessions:
        _close_sessions(verifier)
    os._exit(0)


def _verify(
    verifier: Verifier, request: bytes, limits: WorkerLimits
) -> tuple[list[Verdict], bool, Sequence[SampleKey]]:
    """Return the verdicts, whether the worker can continue (after running out of memory it cannot), and the keys."""
    items: Sequence[Item] = ()
    try:
        items, replies = pickle.loads(request)  # noqa: S301 - from the run that started this worker
        limits.apply_cpu(len(items) * replies)
        verdicts = safe_verify(verifier, items)
    except BaseException as error:  # noqa: BLE001 - KeyboardInterrupt, GeneratorExit or a custom class
        cause = Cause.OUT_OF_MEMORY if isinstance(error, MemoryError) else Cause.EXCEPTION
        return [Verdict.unscored(cause, traceback_tail(error))] * max(1, len(items)), False, ()
    healthy = all(verdict.cause != Cause.OUT_OF_MEMORY for verdict in verdicts)
    return verdicts, healthy, [item.sample.key for item in items]


def _close_sessions(verifier: Verifier) -> None:
    """Close all sessions; an alarm ends this process if that takes too long."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, CLOSING_SECONDS)
    with suppress(BaseException):  # closing runs user code, and no caller waits for the result
        verifier.close_sessions()


def _answer(number: int, verdicts: Sequence[Verdict], last: bool) -> bytes:
    try:
        return json_frame({"call": number, "verdicts": [verdict.to_json() for verdict in verdicts], "last": last})
    except (TypeError, ValueError, RecursionError) as error:
        bad = Verdict.unscored(Cause.BAD_RETURN, f"the verdict cannot be encoded as JSON: {error}")
        return json_frame({"call": number, "verdicts": [bad.to_json()] * len(verdicts), "last": last})


class _Processes:
    """Tracks the processes that the verifier started, which end with the item or with the session that keeps them."""

    def __init__(self, verifier: Verifier, rules: WorkerRules) -> None:
        self.verifier, self.rules = verifier, rules
        self._of_session: dict[SampleKey, set[int]] = {}

    def end_leftover(self, keys: Sequence[SampleKey]) -> None:
        """Kill all processes that do not belong to an open session; new ones belong to the session of the first key."""
        if self.rules.keep_children:
            return
        if not self.verifier.keeps_processes:
            if has_children():
                end_children()
            return
        alive = children()
        kept = {key: pids & alive for key, pids in self._of_session.items()}
        for key in keys[:1]:
            kept.setdefault(key, set()).update(alive.difference(*kept.values()))
        opened = self.verifier.open_sessions()
        self._of_session = {key: pids for key, pids in kept.items() if key in opened and pids}
        keep = frozenset[int]().union(*self._of_session.values())
        if alive - keep:
            end_children(keep)


class _ProcessState:
    """Process state that a verifier may change and that is restored for the next item.

    The state covers the working directory, blocked signals, a pending alarm, stdout and stderr.
    """

    def __init__(self, output: WorkerOutput) -> None:
        self.output = output
        self.folder = os.open(".", os.O_RDONLY)
        self.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self.threads = threading.active_count()

    def restore(self) -> bool:
        """Restore the state. Returns ``False`` if too many threads are still running, which cannot be undone."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)
        for stream in (1, 2):
            os.dup2(self.output.descriptor, stream)
        os.fchdir(self.folder)
        return threading.active_count() <= self.threads + MAX_LEFTOVER_THREADS


def _flush() -> None:
    """Flush stdout and stderr, which the verifier may have closed or replaced."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
