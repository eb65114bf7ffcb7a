"""The pool's side of one worker: its keeper, the worker process of the moment, and the calls it has been given."""

from __future__ import annotations

import json
import os
import pickle
import secrets
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from steelyard.types import Verdict
from steelyard.verification.base import Cause
from steelyard.verification.calls import Call
from steelyard.verification.processes.descendants import end_marked
from steelyard.verification.processes.frames import BrokenFrameError, JsonReader, frame
from steelyard.verification.processes.keeper import HUNG_UP, KILL, ORDER, Setup
from steelyard.verification.processes.output import Output
from steelyard.verification.processes.worker import CALL_NUMBER, NO_CONNECTION
from steelyard.verification.returns import BadReturn, read_verdict
from steelyard.verification.transport import light

MARK = "STEELYARD_KEEPER"
START_SECONDS = 300.0
"""How long a worker may take to import the verifier."""
KEEPER_SECONDS = 15.0
"""How long a keeper may take to end a worker before it is ended itself."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PROGRAM = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from steelyard.verification.processes.keeper import main
main(int(sys.argv[2]), int(sys.argv[3]))
"""
REASON_CHARACTERS = 300
_CHUNK = 2**18
_NONSENSE = (BrokenFrameError, BadReturn, AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)
"""What reading a message that is not one of ours may raise."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The worker judged a call."""

    call: Call
    verdicts: list[Verdict]
    seconds: float


@dataclass(frozen=True, slots=True)
class Ended:
    """The worker is gone: ``accident`` happened to the call it was at, ``untouched`` were waiting behind it."""

    call: Call | None
    accident: Verdict | None
    untouched: list[Call]


@dataclass(frozen=True, slots=True)
class CannotStart:
    """The verifier could not be loaded."""

    reason: str


Event = Answered | Ended | CannotStart


class WorkerHandle:
    """Talks to one keeper and its worker without ever waiting for them; what happened comes back as events."""

    def __init__(self, setup: Setup, seconds: float | None) -> None:
        self.setup = setup
        self.seconds = seconds
        self.output = Output(1024 * setup.rules.limits.output_kb)
        self._numbers: deque[int] = deque()
        """Of the calls below. They are random: a verifier cannot answer for samples that it was not shown."""
        self.calls: deque[Call] = deque()
        """Given to the worker and not answered; it is at the first one."""
        self.failed_starts = 0
        """Workers and keepers in a row that ended before they were ready."""
        self.was_ready = False
        """Whether any worker here ever was; a failure to start is a passing one then."""
        self._start()

    # --- what the pool asks ------------------------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether the worker takes calls."""
        return self._ready and self.connection is not None and not self._retired and self._doom is None

    @property
    def sockets(self) -> list[tuple[socket.socket, bool]]:
        """What to wait for, and whether there is something to write to it."""
        waiting = [(self.control, False)]
        if self.connection is not None:
            waiting.append((self.connection, bool(self._unsent)))
        return waiting

    @property
    def deadline(self) -> float | None:
        """When :meth:`overdue` should be called."""
        return self._deadline

    def give(self, call: Call) -> None:
        number = secrets.randbits(63)
        items = pickle.dumps([light(item) for item in call.items], protocol=5)
        self._unsent += frame(CALL_NUMBER.pack(number) + items)
        self.calls.append(call)
        self._numbers.append(number)
        if len(self.calls) == 1:
            self._begin()
        self.write()

    def retire(self) -> None:
        """Take no more calls and make way for a fresh worker; what was given is still answered."""
        self._retired = True
        self.write()

    def write(self) -> None:
        """Send as much as the worker's connection takes; one that retires is told when that was all."""
        while self._unsent and self.connection is not None:
            try:
                sent = self.connection.send(self._unsent[:_CHUNK])
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # gone; the keeper will tell how
                self._unsent.clear()
                return
            del self._unsent[:sent]
        if self._retired and self.connection is not None:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_WR)

    def overdue(self) -> list[Event]:
        """The call took too long, the worker too long to start, or the keeper too long to end it."""
        events = self._read_connection()  # an answer that came in time and was not read yet counts
        if self._deadline is None or self._deadline > time.monotonic():
            return events
        if self._doom is not None or (self._ready and self.connection is None):
            events += self._keeper_gone()  # it does not answer: start another
        elif not self._ready:
            said = f"the verifier was not imported within {START_SECONDS:.0f} s{self._printed()}"
            events += [CannotStart(said), *self._keeper_gone()]
        else:
            self._condemn(Cause.TIMEOUT, f"no verdict after {self._allowed(self.calls[0]):g} s")
        return events

    def close(self) -> None:
        """Let go: the keeper ends its worker, and itself; one without a worker may be importing for long yet."""
        self.control.close()
        if self.connection is not None:
            self.connection.close()
        else:
            self.process.kill()
        self.connection = None

    def wait_closed(self) -> None:
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.returncode != 0:
            end_marked(self._mark)
        self.output.close()

    # --- what comes in -----------------------------------------------------------------------------------------------

    def read(self, source: socket.socket) -> list[Event]:
        return self._read_control() if source is self.control else self._read_connection()

    def _read_control(self) -> list[Event]:
        events: list[Event] = []
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self.control, _CHUNK, 8)
            except (BlockingIOError, InterruptedError):
                return events
            except OSError:
                data, descriptors = b"", []
            self._descriptors.extend(descriptors)
            if not data:
                return [*events, *self._keeper_gone()]
            try:
                for message in self._control_reader.feed(data):
                    events.extend(self._heard(message))
            except _NONSENSE:
                return [*events, *self._keeper_gone()]

    def _heard(self, message: dict[str, Any]) -> list[Event]:
        if "started" in message:
            self._worker_started(int(message["started"]))
        elif "ended" in message:
            return self._worker_ended(int(message["status"]), bool(message["killed"]))
        elif "failed" in message:
            return [CannotStart(message["failed"])]
        elif "threads" in message:  # it must not be forked from: every worker imports the verifier by itself
            self.setup = replace(self.setup, preload=False)
            self.failed_starts -= 1  # this keeper ends on purpose
        return []

    def _read_connection(self) -> list[Event]:
        events: list[Event] = []
        while self.connection is not None:
            try:
                data = self.connection.recv(_CHUNK)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                data = b""
            if not data:
                self._hang_up()
                break
            try:
                for message in self._reader.feed(data):
                    events.extend(self._answered(message))
            except _NONSENSE as error:
                said = f"{type(error).__name__}: {error}"[:REASON_CHARACTERS]  # it may quote all of a forged message
                self._condemn(Cause.LOST_WORKER, f"its answer makes no sense ({said})")
                self._hang_up()  # nothing that it says from here on counts
        return events

    def _answered(self, message: dict[str, Any]) -> list[Event]:
        """Verifiers share a process with the worker and could write here too, so nothing is taken on trust."""
        if not self._ready:
            return self._worker_ready(message)
        number = message["call"]
        if number in self._answered_numbers:  # somebody wrote twice: the calls that follow are not to blame
            self.retire()
            return []
        if not self._numbers or number != self._numbers[0]:
            raise ValueError(f"an answer to call {number!r}, which it was not given")
        call, data = self.calls[0], message["verdicts"]
        if not isinstance(data, list) or len(cast("list[Any]", data)) != len(call.items):
            raise ValueError(f"not {len(call.items)} verdicts")
        pairs = zip(cast("list[Any]", data), call.items, strict=True)
        verdicts = [read_verdict(verdict, item.sample.text) for verdict, item in pairs]
        self._retired = self._retired or bool(message["last"])
        self.calls.popleft()
        self._answered_numbers.add(self._numbers.popleft())
        seconds = time.monotonic() - self._began
        if self._doom is None:
            self._begin()
        return [Answered(call, verdicts, seconds)]

    def _worker_ready(self, message: dict[str, Any]) -> list[Event]:
        if "failed" in message:
            return [CannotStart(str(message["failed"]))]
        if "ready" not in message:
            raise ValueError("an answer before it was ready")
        self._ready, self._deadline, self.failed_starts = True, None, 0
        self.was_ready = True
        return []

    # --- a worker's life ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """A keeper of its own program, with nothing of this process but what it is told."""
        self._mark = f"{MARK}={uuid.uuid4().hex}"
        name, _, value = self._mark.partition("=")
        environment = {**dict.fromkeys(THREAD_VARIABLES, "1"), **os.environ, name: value}
        self.control, theirs = socket.socketpair()
        paths = json.dumps([str(path or Path.cwd()) for path in sys.path])
        self.output.start()
        self.process = subprocess.Popen(  # noqa: S603 - this interpreter and a program of ours
            [sys.executable, "-u", "-P", "-c", _PROGRAM, paths, str(theirs.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=self.output.descriptor,
            stderr=self.output.descriptor,
            pass_fds=(theirs.fileno(),),
            env=environment,
            start_new_session=True,
        )
        theirs.close()
        with suppress(OSError):  # a keeper that is already gone is noticed when its end is read
            self.control.sendall(frame(pickle.dumps(self.setup)))
        self.control.setblocking(False)
        self._control_reader = JsonReader()
        self._descriptors: deque[int] = deque()
        self._forget_worker()
        self._deadline = time.monotonic() + START_SECONDS

    def _forget_worker(self) -> None:
        self.connection: socket.socket | None = None
        self._pid = 0
        self._ready = self._retired = False
        self._doom: Verdict | None = None
        """What the pool ended the worker for."""
        self._doomed: Call | None = None
        """The call that this happened to."""
        self._unsent = bytearray()
        self._reader = JsonReader()
        self._answered_numbers: set[int] = set()
        self._began = 0.0
        self._deadline: float | None = None

    def _worker_started(self, pid: int) -> None:
        self._forget_worker()
        self._pid = pid
        self.connection = socket.socket(fileno=self._descriptors.popleft())
        self.connection.setblocking(False)
        self._deadline = time.monotonic() + START_SECONDS

    def _begin(self) -> None:
        """The worker turns to the first of its calls."""
        self._began = time.monotonic()
        limited = self.calls and self.seconds is not None
        self._deadline = self._began + self._allowed(self.calls[0]) if limited else None

    def _allowed(self, call: Call) -> float:
        return (self.seconds or 0.0) * len(call.items)

    def _condemn(self, cause: Cause, reason: str) -> None:
        if self._doom is None:
            self._doom = Verdict.unscored(cause, reason)
            self._doomed = self.calls[0] if self.calls else None
            self._order(KILL)

    def _hang_up(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.connection = None
        if self._doom is None and not self._retired:
            self._order(HUNG_UP)

    def _order(self, what: bytes) -> None:
        self._deadline = time.monotonic() + KEEPER_SECONDS
        with suppress(OSError):
            self.control.send(ORDER.pack(what, self._pid))

    def _worker_ended(self, status: int, killed: bool) -> list[Event]:
        events = self._read_connection()  # what it answered before it ended counts
        self.failed_starts += not self._ready
        broke_off = self._doom is not None and self._doom.cause == Cause.LOST_WORKER
        accident = None if self._retired and not broke_off else self._accident(status, killed)
        events.append(self._gone(accident))
        if self.connection is not None:
            self.connection.close()
        self._forget_worker()
        self._deadline = time.monotonic() + START_SECONDS
        return events

    def _keeper_gone(self) -> list[Event]:
        events = self._read_connection()
        self.process.kill()
        self.process.wait()
        end_marked(self._mark)
        self.failed_starts += not self._ready
        lost = Verdict.unscored(Cause.LOST_WORKER, f"its keeper ended with {self.process.returncode}{self._printed()}")
        events.append(self._gone(self._doom or lost))
        self.close()
        self._start()
        return events

    def _gone(self, accident: Verdict | None) -> Ended:
        """Take back all calls; the first one had the accident."""
        calls = list(self.calls)
        self.calls.clear()
        self._numbers.clear()
        innocent = self._doom is not None and (not calls or calls[0] is not self._doomed)  # it answered after all
        if accident is None or not calls or innocent:
            return Ended(None, accident, calls)
        return Ended(calls[0], accident, calls[1:])

    def _accident(self, status: int, killed: bool) -> Verdict:
        """What the way the worker ended means."""
        printed = self._printed()
        if self._doom is not None:
            return replace(self._doom, reason=self._doom.reason + printed)
        if killed or status == NO_CONNECTION:
            return Verdict.unscored(Cause.LOST_WORKER, "the verifier closed the worker's connection" + printed)
        if status >= 0:
            return Verdict.unscored(Cause.EXITED, f"exit code {status}{printed}", detail=f"code {status}")
        if status == -signal.SIGXCPU:
            return Verdict.unscored(Cause.CPU_LIMIT, f"no verdict within the processor time allowed{printed}")
        if status == -signal.SIGABRT and "bad_alloc" in printed:
            return Verdict.unscored(Cause.OUT_OF_MEMORY, printed.strip())
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        return Verdict.unscored(Cause.SIGNAL, name + printed, detail=name)

    def _printed(self) -> str:
        tail = self.output.tail()
        return f"\n{tail}" if tail else ""
