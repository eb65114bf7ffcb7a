"""A sandboxed program that keeps running between requests and answers each with one line.

The program reads requests from stdin and writes answers to the named pipe ``answers`` in its working folder. Limits,
isolation and termination work as in :func:`run_command`; in addition, each request has its own time limit.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, cast

from steelyard.errors import SandboxError
from steelyard.verification.sandbox import supervisor
from steelyard.verification.sandbox.levels import Level, kept_environment, resolve_level
from steelyard.verification.sandbox.run import RunLimits, prepare_folder, request_for
from steelyard.verification.sandbox.supervisor import Report

ANSWERS = "answers"
"""Name of the pipe for answers in the program's working folder."""
MAX_ANSWER_BYTES = 1 << 20
POLL_SECONDS = 0.05
"""Interval at which a waiting caller checks that the program is still running."""
END_SECONDS = supervisor.GRACE + 5.0


class SandboxSession:
    """One running program. Close the session when done; it also ends with this process."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        files: Mapping[str, str | bytes] | None = None,
        environment: Mapping[str, str] | None = None,
        limits: RunLimits = RunLimits(),  # noqa: B008 - frozen
        level: Level | Literal["auto"] = "auto",
    ) -> None:
        """``limits.seconds`` applies to the whole session."""
        at = resolve_level(level)
        self._folder = Path(tempfile.mkdtemp(prefix="steelyard-sandbox-"))
        self._pipes: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        try:
            prepare_folder(self._folder, None, files or {})
            for pipe in (self._folder / "stdin", self._folder / "scratch" / ANSWERS):
                os.mkfifo(pipe, 0o600)
                self._pipes.append(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # with O_RDWR, opening never blocks
            request = request_for(command, self._folder, at, environment or {}, limits)
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", "-S", supervisor.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=kept_environment(),
                start_new_session=True,
            )
            if self._process.stdin is not None:
                with self._process.stdin as stdin:
                    stdin.write(json.dumps(request).encode())
                self._process.stdin = None  # otherwise communicate would flush it again
        except BaseException:
            self.close()
            raise

    def ask(self, line: str, seconds: float) -> str:
        """Send one line and return the answer.

        Raise ``SandboxError`` if the program ends, or if it takes longer than ``seconds``; the session is then closed.
        """
        if not self._pipes:
            raise SandboxError("the sandboxed program has ended; start a new session")
        deadline = time.monotonic() + seconds
        try:
            self._send(line.encode() + b"\n", deadline)
            return self._receive(deadline).decode("utf-8", errors="replace")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the program and everything it started, and remove its folder. Calling it twice is safe."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(OSError):
                process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=END_SECONDS)
            if process.poll() is None:
                supervisor.kill_descendants(process.pid)
                process.kill()
                process.wait()
        for pipe in self._pipes:
            os.close(pipe)
        self._pipes = []
        supervisor.remove_folder(self._folder)

    def _send(self, data: bytes, deadline: float) -> None:
        while data:
            self._wait(deadline, writable=True)
            with suppress(BlockingIOError):
                data = data[os.write(self._pipes[0], data) :]

    def _receive(self, deadline: float) -> bytes:
        data = b""
        while not data.endswith(b"\n"):
            self._wait(deadline, writable=False)
            with suppress(BlockingIOError):
                data += os.read(self._pipes[1], 1 << 16)
            if len(data) > MAX_ANSWER_BYTES:
                raise SandboxError(f"the sandboxed program answered with more than {MAX_ANSWER_BYTES} bytes")
        return data

    def _wait(self, deadline: float, *, writable: bool) -> None:
        """Wait until a pipe is ready; raise if the program has ended or the time is up."""
        while True:
            inputs, outputs = ([], self._pipes[:1]) if writable else (self._pipes[1:], [])
            if any(select.select(inputs, outputs, [], POLL_SECONDS)):
                return
            if self._process is None or self._process.poll() is not None:
                raise SandboxError(f"the sandboxed program ended before it answered a request{self._last_words()}")
            if time.monotonic() > deadline:
                raise SandboxError("the sandboxed program did not answer within its time limit")

    def _last_words(self) -> str:
        """Return why the program ended, as its supervisor reports it."""
        process = self._process
        if process is None or process.stdout is None:
            return ""
        try:
            report = cast("Report", json.loads(process.stdout.read()))
        except ValueError:
            return " (its supervisor was killed)"
        ended = report["stopped"] or f"exit code {report['returncode']}"
        return f" ({report['error'] or ended}) {report['stderr'].strip()[-300:]}".rstrip()
