"""The worker process, in which the verifier runs. It can reach the run only through JSON messages."""

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
from dataclasses import dataclass
from typing import NoReturn

from steelyard.types import Verdict
from steelyard.verification.base import Cause, Item, Verifier
from steelyard.verification.processes.descendants import adopt_orphans, die_with_parent, end_children, has_children
from steelyard.verification.processes.frames import json_frame, receive
from steelyard.verification.processes.limits import Recycling, WorkerLimits
from steelyard.verification.processes.output import WorkerOutput
from steelyard.verification.safe_verify import safe_verify, traceback_tail

NO_CONNECTION = 217
"""Exit code of a worker that has lost its connection to the run because the verifier closed it."""
CALL_NUMBER = struct.Struct("<Q")
"""Call number that precedes the items of a request; the answer repeats it."""
MAX_LEFTOVER_THREADS = 32
"""Number of threads that a verifier may leave running, for example an event loop. More than that is a leak."""


@dataclass(frozen=True, slots=True)
class WorkerRules:
    """Limits and rules of a worker."""

    limits: WorkerLimits
    recycling: Recycling
    keep_children: bool = False
    """Whether processes started by the verifier live as long as the worker, instead of ending with the item."""


def serve(
    verifier: Verifier, connection: socket.socket, output: WorkerOutput, rules: WorkerRules, forkserver: int
) -> NoReturn:
    """Verify requests until the connection closes; never returns. ``forkserver`` is the parent's process id."""
    die_with_parent(forkserver)
    adopt_orphans()
    faulthandler.enable(output.descriptor)
    rules.limits.apply()
    state = _ProcessState(output)
    own = (os.getpid(), os.fstat(connection.fileno()).st_ino)
    verified = 0
    connection.sendall(json_frame({"ready": os.getpid()}))
    while (request := receive(connection)) is not None:
        output.start()
        number, payload = CALL_NUMBER.unpack_from(request)[0], request[CALL_NUMBER.size :]
        verdicts, healthy = _verify(verifier, payload, rules.limits)
        try:
            if (os.getpid(), os.fstat(connection.fileno()).st_ino) != own:
                os._exit(NO_CONNECTION)  # this is a fork made by the verifier, or the descriptor was replaced
            _flush()
            if output.overflowed:
                reason = f"printed more than {output.limit} bytes, ending with:\n{output.tail()}"
                verdicts = [Verdict.unscored(Cause.OUTPUT_OVERFLOW, reason)] * len(verdicts)
            if not rules.keep_children and has_children():
                end_children()
            verified += len(verdicts)
            last = not healthy or not state.restore() or rules.recycling.due(verified)
            connection.sendall(_answer(number, verdicts, last))
        except OSError:  # the verifier closed the connection
            os._exit(NO_CONNECTION)
        if last:
            break
    os._exit(0)


def _verify(verifier: Verifier, request: bytes, limits: WorkerLimits) -> tuple[list[Verdict], bool]:
    """Return the verdicts, and whether the worker can continue; after running out of memory it cannot."""
    count = 1
    try:
        items: Sequence[Item] = pickle.loads(request)  # noqa: S301 - from the run that started this worker
        count = len(items)
        limits.apply_cpu(count)
        verdicts = safe_verify(verifier, items)
    except BaseException as error:  # noqa: BLE001 - KeyboardInterrupt, GeneratorExit or a custom class
        cause = Cause.OUT_OF_MEMORY if isinstance(error, MemoryError) else Cause.EXCEPTION
        return [Verdict.unscored(cause, traceback_tail(error))] * count, False
    return verdicts, all(verdict.cause != Cause.OUT_OF_MEMORY for verdict in verdicts)


def _answer(number: int, verdicts: Sequence[Verdict], last: bool) -> bytes:
    try:
        return json_frame({"call": number, "verdicts": [verdict.to_json() for verdict in verdicts], "last": last})
    except (TypeError, ValueError, RecursionError) as error:
        bad = Verdict.unscored(Cause.BAD_RETURN, f"the verdict cannot be encoded as JSON: {error}")
        return json_frame({"call": number, "verdicts": [bad.to_json()] * len(verdicts), "last": last})


class _ProcessState:
    """Process state that a verifier may change and that is restored for the next item.

    It covers the working directory, blocked signals, a pending alarm, stdout and stderr.
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
