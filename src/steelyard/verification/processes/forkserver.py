"""The fork server of a worker: imports the verifier once, forks workers and cleans up after each of them.

The pool starts the fork server as a separate program, so it contains no state of the run: no torch, no notebook and no
main module. The fork server ends with the run, even if the run is killed.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from steelyard.verification.base import Verifier
from steelyard.verification.processes.descendants import (
    adopt_orphans,
    children,
    die_with_parent,
    end_children,
    outlive_parent,
)
from steelyard.verification.processes.frames import json_frame, receive
from steelyard.verification.processes.output import WorkerOutput
from steelyard.verification.processes.worker import CLOSING_SECONDS, WorkerRules, serve
from steelyard.verification.safe_verify import traceback_tail
from steelyard.verification.transport import unpack

COMMAND = struct.Struct("<cQ")
"""A command from the pool and the process id of the worker it refers to."""
KILL = b"k"
"""Kill the worker immediately."""
HUNG_UP = b"h"
"""The worker closed its connection: kill it unless it ends within ``ENDING_SECONDS``."""
ENDING_SECONDS = 0.5
"""Time allowed for a worker with a closed connection to exit normally, so that its exit status is known."""
_PARENT_CHECK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """The first message from the pool to a fork server."""

    verifier: bytes
    rules: WorkerRules
    folder: str
    preload: bool = True
    """Import the verifier once in the fork server, instead of in every worker."""


def main(control_descriptor: int, parent: int) -> None:
    """Run the workers of one handle until the run closes ``control_descriptor`` or ends."""
    die_with_parent(parent)
    adopt_orphans()
    control = socket.socket(fileno=control_descriptor)
    payload = receive(control)
    if payload is None:
        return
    setup: WorkerSetup = pickle.loads(payload)  # noqa: S301 - from the run that started this process
    os.chdir(setup.folder)
    output = WorkerOutput(1024 * setup.rules.limits.output_kb, descriptor=os.dup(sys.stdout.fileno()))
    verifier = _load(setup, control) if setup.preload else None
    if verifier is not None and (threads := _threads()) > 1:
        control.sendall(json_frame({"threads": threads}))
        end_children()
        return
    imported = frozenset(children())
    outlive_parent()
    try:
        _run_workers(setup, verifier, output, control, parent, imported)
    except OSError:  # the run closed the connection mid-message
        pass
    finally:
        end_children()


def _run_workers(
    setup: WorkerSetup,
    verifier: Verifier | None,
    output: WorkerOutput,
    control: socket.socket,
    parent: int,
    imported: frozenset[int],
) -> None:
    """Fork workers, one after the other."""
    while os.getppid() == parent:
        theirs, ours = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            control.close()
            theirs.close()
            serve(verifier or _load(setup, ours), ours, output, setup.rules, os.getppid())
        ours.close()
        socket.send_fds(control, [json_frame({"started": pid})], [theirs.fileno()])
        theirs.close()
        ended = _watch(pid, control, parent)
        if ended is None and setup.rules.sessions:
            _wait_for_end(pid)
        end_children(imported)
        if ended is None:
            return
        control.sendall(json_frame(ended))


def _load(setup: WorkerSetup, connection: socket.socket) -> Verifier:
    """Load the verifier. On failure, report the reason and exit."""
    try:
        return unpack(setup.verifier)
    except BaseException as error:  # noqa: BLE001 - importing a user's module may do anything
        connection.sendall(json_frame({"failed": traceback_tail(error)}))
        os._exit(1)


def _threads() -> int:
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return threading.active_count()


def _wait_for_end(pid: int) -> None:
    """Give the worker time to close its sessions after the run has ended, which also closed its connection."""
    deadline = time.monotonic() + CLOSING_SECONDS
    while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.005)


def _watch(pid: int, control: socket.socket, parent: int) -> dict[str, object] | None:
    """Wait for the worker to end and return how it ended, or ``None`` if the run has ended."""
    watched = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    killed, kill_at = False, None
    try:
        while True:
            pause = _PARENT_CHECK_SECONDS if watched is not None else 0.02
            if kill_at is not None:
                pause = min(pause, max(0.0, kill_at - time.monotonic()))
            ready = select.select([control, *([watched] if watched is not None else [])], [], [], pause)[0]
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return {"ended": pid, "status": os.waitstatus_to_exitcode(status), "killed": killed}
            if control in ready:
                message = control.recv(COMMAND.size, socket.MSG_WAITALL)
                if len(message) < COMMAND.size:
                    return None
                command, target = COMMAND.unpack(message)
                if target == pid and not killed:  # the command may refer to an earlier worker
                    kill_at = time.monotonic() + (ENDING_SECONDS if command == HUNG_UP else 0.0)
            elif os.getppid() != parent:
                return None
            if kill_at is not None and time.monotonic() >= kill_at:
                os.kill(pid, signal.SIGKILL)
                killed, kill_at = True, None
    finally:
        if watched is not None:
            os.close(watched)
