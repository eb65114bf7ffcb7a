"""A stateful Python interpreter in the sandbox: names defined by one call exist in later calls of the episode."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from steelyard.errors import SandboxError
from steelyard.verification.sandbox import RunLimits, SandboxSession

SECONDS = 5.0
"""Time limit for one call."""
GRACE_SECONDS = 5.0
"""Additional time before an interpreter that does not stop at the limit is killed."""
OUTPUT_CHARACTERS = 2000
LIMITS = RunLimits(seconds=3600.0, cpu_seconds=600, memory=1 << 30, processes=16, output=1 << 12)
"""Limits for an episode's interpreter over its whole lifetime."""


class Python:
    """An interpreter for one episode, started at the first call."""

    tool_name: ClassVar[str] = "python"

    def __init__(self, seed: int = 0) -> None:
        """``seed`` initialises the ``random`` module, so that repeating the same calls gives the same output."""
        self.seed = seed
        self._session: SandboxSession | None = None

    def __call__(self, code: Annotated[str, Field(max_length=20_000)]) -> str:
        """Run Python code and return its output. Variables stay defined for later calls.

        Args:
            code: Python code. The value of a final expression is part of the output.

        """
        session = self._session = self._session or self._start()
        line = session.ask(json.dumps(code), SECONDS + GRACE_SECONDS)
        try:
            output = json.loads(line)
        except ValueError:
            output = None
        if not isinstance(output, str):
            self.close()
            raise SandboxError(f"the interpreter answered {line[:100]!r} instead of output")
        return output[: OUTPUT_CHARACTERS + 100]

    def close(self) -> None:
        """End the interpreter."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _start(self) -> SandboxSession:
        script = Path(__file__).with_name("interpreter_process.py").read_bytes()
        return SandboxSession(
            [sys.executable, "-P", "-s", "main.py", str(SECONDS), str(OUTPUT_CHARACTERS), str(self.seed)],
            files={"main.py": script},
            environment={"PYTHONHASHSEED": "0"},
            limits=LIMITS,
        )
