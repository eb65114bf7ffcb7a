"""The pool's handle to one worker: its fork server, its current process and its pending calls."""

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
from steelyard.verification.processes.forkserver import COMMAND, HUNG_UP, KILL, WorkerSetup
from steelyard.verification.processes.frames import BrokenFrameError, JsonReader, frame
from steelyard.verification.processes.output import WorkerOutput
from steelyard.verification.processes.worker import CALL_NUMBER, NO_CONNECTION
from steelyard.verification.returns import BadReturn, read_verdict
from steelyard.verification.transport import without_decisions

MARK = "STEELYARD_FORKSERVER"
"""Environment variable that marks a fork server and all its descendants."""
START_SECONDS = 300.0
"""Time limit for importing the verifier in a worker."""
FORKSERVER_SECONDS = 15.0
"""Time limit for a fork server to end a worker. If it is exceeded, the fork server is killed."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PROGRAM = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from steelyard.verification.processes.forkserver import main
main(int(sys.argv[2]), int(sys.argv[3]))
"""
REASON_CHARACTERS = 300
_CHUNK = 2**18
_INVALID_MESSAGE = (
    BrokenFrameError,
    BadReturn,
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    TypeError,
    ValueError,
)
"""Errors that reading an invalid or forged message may raise."""


@dataclass(frozen=True, slots=True)
class CallVerified:
    """The worker returned the verdicts of a call."""

    call: Call
    verdicts: list[Verdict]
    seconds: float


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """The worker ended. ``failure`` applies to its current ``call``; ``unstarted`` calls were waiting."""

    call: Call | None
    failure: Verdict | None
    unstarted: list[Call]


@dataclass(frozen=True, slots=True)
class StartFailed:
    """The worker could not load the verifier."""

    reason: str


Event = CallVerified | WorkerEnded | StartFailed


class WorkerHandle:
    """Communicates with one fork server and its worker without blocking. Changes are returned as events."""

    def __init__(self, setup: WorkerSetup, seconds: float | None) -> None:
        self.setup = setup
        self.seconds = seconds
        self.output = WorkerOutput(1024 * setup.rules.limits.output_kb)
        self._numbers: deque[int] = deque()
        """Random numbers of the pending calls. A verifier cannot guess these numbers and so cannot answer for other
        samples."""
        self.calls: deque[Call] = deque()
        """Calls sent to the worker and not yet answered. The worker is processing the first of them."""
        self.failed_starts = 0
        """Number of consecutive workers and fork servers that ended before they were ready."""
        self.ever_ready = False
        """Whether any worker was ever ready. If one was, a later failure to start is considered temporary."""
        self._start()

    # --- called by the pool ------------------------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether the worker accepts calls."""
        return self._ready and self.connection is not None and not self._retired and self._kill_reason is None

    @property
    def sockets(self) -> list[tuple[socket.socket, bool]]:
        """The sockets to wait for, each with a flag for unsent data."""
        waiting = [(self.control, False)]
        if self.connection is not None:
            waiting.append((self.connection, bool(self._unsent)))
        return waiting

    @property
    def deadline(self) -> float | None:
        """The time at which to call :meth:`on_deadline`."""
        return self._deadline

    def send_call(self, call: Call) -> None:
        """Send a call to the worker."""
        number = secrets.randbits(63)
        items = pickle.dumps(([without_decisions(item) for item in call.items], call.replies), protocol=5)
        self._unsent += frame(CALL_NUMBER.pack(number) + items)
        self.calls.append(call)
        self._numbers.append(number)
        if len(self.calls) == 1:
            self._start_first_call()
        self.write()

    def retire(self) -> None:
        """Accept no more calls, so that a fresh worker replaces this one after its pending calls."""
        self._retired = True
        self.write()

    def write(self) -> None:
        """Send as much as the connection accepts. For a retiring worker, close the connection after the last byte."""
        while self._unsent and self.connection is not None:
            try:
                sent = self.connection.send(self._unsent[:_CHUNK])
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # the worker has exited; the fork server will report how
                self._unsent.clear()
                return
            del self._unsent[:sent]
        if self._retired and self.connection is not None:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_WR)

    def on_deadline(self) -> list[Event]:
        """Handle the timeout of a call, a worker start or a fork server."""
        events = self._read_connection()  # an answer that arrived in time still counts
        if self._deadline is None or self._deadline > time.monotonic():
            return events
        if self._kill_reason is not None or (self._ready and self.connection is None):
            events += self._forkserver_lost()  # the fork server is not responding
        elif not self._ready:
            reason = f"the verifier was not imported within {START_SECONDS:.0f} s{self._printed()}"
            events += [StartFailed(reason), *self._forkserver_lost()]
        else:
            self._kill_worker(Cause.TIMEOUT, f"no verdict after {self._allowed(self.calls[0]):g} s")
        return events

    def close(self) -> None:
        """Close the connections, which ends the fork server and its worker.

        A fork server without a worker is killed, because it may still be importing the verifier.
        """
        self.control.close()
        if self.connection is not None:
            self.connection.close()
        else:
            self.process.kill()
        self.connection = None

    def wait_closed(self) -> None:
        """Wait for the fork server to end and kill any remaining processes."""
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.returncode != 0:
            end_marked(self._mark)
        self.output.close()

    # --- incoming messages -------------------------------------------------------------------------------------------

    def read(self, source: socket.socket) -> list[Event]:
        """Read the available messages from one of the sockets."""
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
                return [*events, *self._forkserver_lost()]
            try:
                for message in self._control_reader.feed(data):
                    events.extend(self._on_control_message(message))
            except _INVALID_MESSAGE:
                return [*events, *self._forkserver_lost()]

    def _on_control_message(self, message: dict[str, Any]) -> list[Event]:
        if "started" in message:
            self._worker_started(int(message["started"]))
        elif "ended" in message:
            return self._worker_ended(int(message["status"]), bool(message["killed"]))
        elif "failed" in message:
            return [StartFailed(message["failed"])]
        elif "threads" in message:  # forking is unsafe with threads, so every worker imports the verifier
            self.setup = replace(self.setup, preload=False)
            self.failed_starts -= 1  # this fork server exits on purpose
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
                    events.extend(self._on_answer(message))
            except _INVALID_MESSAGE as error:
                reason = f"{type(error).__name__}: {error}"[:REASON_CHARACTERS]  # may quote a forged message
                self._kill_worker(Cause.LOST_WORKER, f"the worker sent an invalid answer ({reason})")
                self._hang_up()  # ignore all further messages
        return events

    def _on_answer(self, message: dict[str, Any]) -> list[Event]:
        """Handle an answer. The verifier runs in the worker and could forge answers, so every field is checked."""
        if not self._ready:
            return self._worker_ready(message)
        number = message["call"]
        if number in self._answered_numbers:  # duplicate answer, not the fault of later calls
            self.retire()
            return []
        if not self._numbers or number != self._numbers[0]:
            raise ValueError(f"an answer to call {number!r}, which was not sent")
        call, data = self.calls[0], message["verdicts"]
        if not isinstance(data, list) or len(cast("list[Any]", data)) != len(call.items):
            raise ValueError(f"expected {len(call.items)} verdicts")
        pairs = zip(cast("list[Any]", data), call.items, strict=True)
        verdicts = [read_verdict(verdict, item.sample.text) for verdict, item in pairs]
        self._retired = self._retired or bool(message["last"])
        self.calls.popleft()
        self._answered_numbers.add(self._numbers.popleft())
        seconds = time.monotonic() - self._call_started
        if self._kill_reason is None:
            self._start_first_call()
        return [CallVerified(call, verdicts, seconds)]

    def _worker_ready(self, message: dict[str, Any]) -> list[Event]:
        if "failed" in message:
            return [StartFailed(str(message["failed"]))]
        if "ready" not in message:
            raise ValueError("an answer before it was ready")
        self._ready, self._deadline, self.failed_starts = True, None, 0
        self.ever_ready = True
        return []

    # --- worker lifecycle --------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Start a fork server as a separate program that inherits no state of this process."""
        self._mark = f"{MARK}={uuid.uuid4().hex}"
        name, _, value = self._mark.partition("=")
        environment = {**dict.fromkeys(THREAD_VARIABLES, "1"), **os.environ, name: value}
        self.control, theirs = socket.socketpair()
        paths = json.dumps([str(path or Path.cwd()) for path in sys.path])
        self.output.start()
        self.process = subprocess.Popen(  # noqa: S603 - this interpreter and our own program
            [sys.executable, "-u", "-P", "-c", _PROGRAM, paths, str(theirs.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=self.output.descriptor,
            stderr=self.output.descriptor,
            pass_fds=(theirs.fileno(),),
            env=environment,
            start_new_session=True,
        )
        theirs.close()
        with suppress(OSError):  # if the fork server has already exited, the next read will show it
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
        self._kill_reason: Verdict | None = None
        """Why the pool killed the worker."""
        self._killed_call: Call | None = None
        """The call that the worker was processing when the pool killed it."""
        self._unsent = bytearray()
        self._reader = JsonReader()
        self._answered_numbers: set[int] = set()
        self._call_started = 0.0
        self._deadline: float | None = None

    def _worker_started(self, pid: int) -> None:
        self._forget_worker()
        self._pid = pid
        self.connection = socket.socket(fileno=self._descriptors.popleft())
        self.connection.setblocking(False)
        self._deadline = time.monotonic() + START_SECONDS

    def _start_first_call(self) -> None:
        """Start the clock of the first pending call."""
        self._call_started = time.monotonic()
        limited = self.calls and self.seconds is not None
        self._deadline = self._call_started + self._allowed(self.calls[0]) if limited else None

    def _allowed(self, call: Call) -> float:
        return (self.seconds or 0.0) * len(call.items) * call.replies

    def _kill_worker(self, cause: Cause, reason: str) -> None:
        if self._kill_reason is None:
            self._kill_reason = Verdict.unscored(cause, reason)
            self._killed_call = self.calls[0] if self.calls else None
            self._send_command(KILL)

    def _hang_up(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.connection = None
        if self._kill_reason is None and not self._retired:
            self._send_command(HUNG_UP)

    def _send_command(self, command: bytes) -> None:
        self._deadline = time.monotonic() + FORKSERVER_SECONDS
        with suppress(OSError):
            self.control.send(COMMAND.pack(command, self._pid))

    def _worker_ended(self, status: int, killed: bool) -> list[Event]:
        events = self._read_connection()  # answers sent before the worker exited still count
        self.failed_starts += not self._ready
        lost = self._kill_reason is not None and self._kill_reason.cause == Cause.LOST_WORKER
        failure = None if self._retired and not lost else self._failure(status, killed)
        events.append(self._take_back_calls(failure))
        if self.connection is not None:
            self.connection.close()
        self._forget_worker()
        self._deadline = time.monotonic() + START_SECONDS
        return events

    def _forkserver_lost(self) -> list[Event]:
        """Kill the fork server and its processes, and start another one."""
        events = self._read_connection()
        self.process.kill()
        self.process.wait()
        end_marked(self._mark)
        self.failed_starts += not self._ready
        lost = Verdict.unscored(
            Cause.LOST_WORKER, f"the fork server ended with {self.process.returncode}{self._printed()}"
        )
        events.append(self._take_back_calls(self._kill_reason or lost))
        self.close()
        self._start()
        return events

    def _take_back_calls(self, failure: Verdict | None) -> WorkerEnded:
        """Take back all pending calls. The failure applies to the first call."""
        calls = list(self.calls)
        self.calls.clear()
        self._numbers.clear()
        answered = self._kill_reason is not None and (not calls or calls[0] is not self._killed_call)
        if failure is None or not calls or answered:
            return WorkerEnded(None, failure, calls)
        return WorkerEnded(calls[0], failure, calls[1:])

    def _failure(self, status: int, killed: bool) -> Verdict:
        """Return the verdict that describes how the worker ended."""
        printed = self._printed()
        if self._kill_reason is not None:
            return replace(self._kill_reason, reason=self._kill_reason.reason + printed)
        if killed or status == NO_CONNECTION:
            return Verdict.unscored(Cause.LOST_WORKER, "the verifier closed the worker's connection" + printed)
        if status >= 0:
            return Verdict.unscored(Cause.EXITED, f"exit code {status}{printed}", detail=f"code {status}")
        if status == -signal.SIGXCPU:
            return Verdict.unscored(Cause.CPU_LIMIT, f"no verdict within the CPU time limit{printed}")
        if status == -signal.SIGABRT and "bad_alloc" in printed:
            return Verdict.unscored(Cause.OUT_OF_MEMORY, printed.strip())
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        return Verdict.unscored(Cause.SIGNAL, name + printed, detail=name)

    def _printed(self) -> str:
        tail = self.output.tail()
        return f"\n{tail}" if tail else ""
