"""A worker's keeper: imports the verifier once, forks workers, sees how each ended, and ends what it left behind.

Started by the pool as a program of its own, so nothing of the run's state is in it: no torch, no notebook, no main
module. It ends with the run, also when that is killed.
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
from steelyard.verification.judging import traceback_tail
from steelyard.verification.processes.descendants import (
    adopt_orphans,
    children,
    die_with_parent,
    end_children,
    outlive_parent,
)
from steelyard.verification.processes.frames import json_frame, receive
from steelyard.verification.processes.output import Output
from steelyard.verification.processes.worker import Rules, serve
from steelyard.verification.transport import unpack

ORDER = struct.Struct("<cQ")
"""From the pool: what to do, and the process id of the worker it is about."""
KILL = b"k"
"""End the worker now."""
HUNG_UP = b"h"
"""The worker closed its connection: end it, unless it is about to end by itself."""
ENDING = 0.5
"""Seconds that a worker with a closed connection has to end by itself, so that its own status is seen."""
_PARENT_CHECK = 1.0


@dataclass(frozen=True, slots=True)
class Setup:
    """What the pool tells a keeper first."""

    verifier: bytes
    rules: Rules
    folder: str
    preload: bool = True
    """Import the verifier here, once, instead of in every worker."""


def main(control_descriptor: int, parent: int) -> None:
    """Serve one place of the pool until the run lets go of ``control_descriptor`` or is gone."""
    die_with_parent(parent)
    adopt_orphans()
    control = socket.socket(fileno=control_descriptor)
    payload = receive(control)
    if payload is None:
        return
    setup: Setup = pickle.loads(payload)  # noqa: S301 - from the run that started this keeper
    os.chdir(setup.folder)
    output = Output(1024 * setup.rules.limits.output_kb, descriptor=os.dup(sys.stdout.fileno()))
    verifier = _load(setup, control) if setup.preload else None
    if verifier is not None and (threads := _threads()) > 1:
        control.sendall(json_frame({"threads": threads}))
        end_children()
        return
    imported = frozenset(children())
    outlive_parent()
    try:
        _keep(setup, verifier, output, control, parent, imported)
    except OSError:  # the run let go in the middle of a message
        pass
    finally:
        end_children()


def _keep(
    setup: Setup,
    verifier: Verifier | None,
    output: Output,
    control: socket.socket,
    parent: int,
    imported: frozenset[int],
) -> None:
    """One worker after the other."""
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
        end_children(imported)
        if ended is None:
            return
        control.sendall(json_frame(ended))


def _load(setup: Setup, connection: socket.socket) -> Verifier:
    """The verifier, or the end of this process with the reason told."""
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


def _watch(pid: int, control: socket.socket, parent: int) -> dict[str, object] | None:
    """How the worker ended, or ``None`` if the run is gone."""
    watched = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    killed, kill_at = False, None
    try:
        while True:
            pause = _PARENT_CHECK if watched is not None else 0.02
            if kill_at is not None:
                pause = min(pause, max(0.0, kill_at - time.monotonic()))
            ready = select.select([control, *([watched] if watched is not None else [])], [], [], pause)[0]
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return {"ended": pid, "status": os.waitstatus_to_exitcode(status), "killed": killed}
            if control in ready:
                order = control.recv(ORDER.size, socket.MSG_WAITALL)
                if len(order) < ORDER.size:
                    return None
                what, whom = ORDER.unpack(order)
                if whom == pid and not killed:  # not about a worker that ended meanwhile
                    kill_at = time.monotonic() + (ENDING if what == HUNG_UP else 0.0)
            elif os.getppid() != parent:
                return None
            if kill_at is not None and time.monotonic() >= kill_at:
                os.kill(pid, signal.SIGKILL)
                killed, kill_at = True, None
    finally:
        if watched is not None:
            os.close(watched)
