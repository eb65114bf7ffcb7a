"""The process in which the verifier runs. It may do anything here; nothing of it reaches the run but JSON."""

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
from steelyard.verification.judging import judge, traceback_tail
from steelyard.verification.processes.descendants import adopt_orphans, die_with_parent, end_children, has_children
from steelyard.verification.processes.frames import json_frame, receive
from steelyard.verification.processes.limits import Limits, Recycling
from steelyard.verification.processes.output import Output

NO_CONNECTION = 217
"""Exit code of a worker that cannot reach the run any more; a verifier closed what was not its own."""
CALL_NUMBER = struct.Struct("<Q")
"""Before the items of a request; the answer repeats it."""
MOST_THREADS = 32
"""Threads that a verifier may leave running; more than an event loop or a pool of its own needs is a leak."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How a worker works."""

    limits: Limits
    recycling: Recycling
    keep_children: bool = False
    """Processes that the verifier starts live as long as the worker, and not only until the item is judged."""


def serve(verifier: Verifier, connection: socket.socket, output: Output, rules: Rules, keeper: int) -> NoReturn:
    """Judge what comes until the connection closes; never returns."""
    die_with_parent(keeper)
    adopt_orphans()
    faulthandler.enable(output.descriptor)
    rules.limits.apply()
    surroundings = _Surroundings(output)
    own = (os.getpid(), os.fstat(connection.fileno()).st_ino)
    judged = 0
    connection.sendall(json_frame({"ready": os.getpid()}))
    while (request := receive(connection)) is not None:
        output.start()
        number, payload = CALL_NUMBER.unpack_from(request)[0], request[CALL_NUMBER.size :]
        verdicts, sound = _judge(verifier, payload, rules.limits)
        try:
            if (os.getpid(), os.fstat(connection.fileno()).st_ino) != own:
                os._exit(NO_CONNECTION)  # a fork that the verifier forgot to end, or another file in our place
            _flush()
            if output.overflowed:
                said = f"printed more than {output.limit} bytes, the last of them:\n{output.tail()}"
                verdicts = [Verdict.unscored(Cause.OUTPUT_OVERFLOW, said)] * len(verdicts)
            if not rules.keep_children and has_children():
                end_children()
            judged += len(verdicts)
            last = not sound or not surroundings.restore() or rules.recycling.due(judged)
            connection.sendall(_answer(number, verdicts, last))
        except OSError:  # the verifier closed what was not its own
            os._exit(NO_CONNECTION)
        if last:
            break
    os._exit(0)


def _judge(verifier: Verifier, request: bytes, limits: Limits) -> tuple[list[Verdict], bool]:
    """Verdicts, and whether the worker is fit for more: one that ran out of memory is not."""
    count = 1
    try:
        items: Sequence[Item] = pickle.loads(request)  # noqa: S301 - from the run that started this worker
        count = len(items)
        limits.apply_cpu(count)
        verdicts = judge(verifier, items)
    except BaseException as error:  # noqa: BLE001 - KeyboardInterrupt, GeneratorExit or what a verifier invents
        cause = Cause.OUT_OF_MEMORY if isinstance(error, MemoryError) else Cause.EXCEPTION
        return [Verdict.unscored(cause, traceback_tail(error))] * count, False
    return verdicts, all(verdict.cause != Cause.OUT_OF_MEMORY for verdict in verdicts)


def _answer(number: int, verdicts: Sequence[Verdict], last: bool) -> bytes:
    try:
        return json_frame({"call": number, "verdicts": [verdict.to_json() for verdict in verdicts], "last": last})
    except (TypeError, ValueError, RecursionError) as error:
        bad = Verdict.unscored(Cause.BAD_RETURN, f"a verdict that JSON cannot carry: {error}")
        return json_frame({"call": number, "verdicts": [bad.to_json()] * len(verdicts), "last": last})


class _Surroundings:
    """What a verifier may have changed in its process and the next item should find as it was: the working folder,
    blocked signals, a pending alarm, where prints go.
    """

    def __init__(self, output: Output) -> None:
        self.output = output
        self.folder = os.open(".", os.O_RDONLY)
        self.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self.threads = threading.active_count()

    def restore(self) -> bool:
        """Whether that worked; threads that go on running cannot be taken back."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)
        for stream in (1, 2):
            os.dup2(self.output.descriptor, stream)
        os.fchdir(self.folder)
        return threading.active_count() <= self.threads + MOST_THREADS


def _flush() -> None:
    """Bring out what Python still holds; a verifier may have closed or replaced these."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
