"""The program that ``interpreter.Python`` starts in the sandbox: it runs pieces of code and returns their output.

Each line on stdin is a piece of code as a JSON string; its output is written as a JSON string to the pipe ``answers``.
Only the standard library is used. The code can do anything to this process; the sandbox protects everything else.
"""

from __future__ import annotations

import ast
import io
import json
import os
import random
import signal
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

NAME = "<code>"


class BoundedText(io.TextIOBase):
    """Keeps the first ``limit`` characters written and counts the rest."""

    def __init__(self, limit: int) -> None:
        self.limit, self.kept, self.dropped = limit, "", 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        room = self.limit - len(self.kept)
        self.kept += text[:room]
        self.dropped += max(0, len(text) - room)
        return len(text)

    def text(self) -> str:
        return self.kept + (f"\n... {self.dropped} more characters" if self.dropped else "")


def main(seconds: float, characters: int, seed: int) -> None:
    """Run code until stdin ends."""
    random.seed(seed)
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    answers = Path("answers").open("w", encoding="utf-8")  # noqa: SIM115 - open until the process ends
    for path in ("answers", "main.py"):
        Path(path).unlink()
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    signal.signal(signal.SIGALRM, _stop)
    names: dict[str, Any] = {"__name__": "__main__"}
    for line in requests:
        output = BoundedText(characters)
        run(json.loads(line), names, output, seconds)
        answers.write(json.dumps(output.text()) + "\n")
        answers.flush()


def run(code: str, names: dict[str, Any], output: BoundedText, seconds: float) -> None:
    """Run one piece of code; exceptions are printed to the output."""
    with redirect_stdout(output), redirect_stderr(output):
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            try:
                _execute(code, names)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except TimeLimitError:
            print(f"stopped: the code ran longer than {seconds:g} s")
        except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt too
            print("".join(_traceback(error)).strip())


def _execute(code: str, names: dict[str, Any]) -> None:
    tree = ast.parse(code, NAME)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, NAME, "exec"), names)  # noqa: S102 - the purpose of this program
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), NAME, "eval"), names)  # noqa: S307
        if value is not None:
            print(repr(value))


class TimeLimitError(BaseException):
    """Raised in code that runs too long; not an Exception, so that most code does not catch it."""


def _stop(_number: int, _frame: object) -> None:
    raise TimeLimitError


def _traceback(error: BaseException) -> list[str]:
    """Return the line number in the code and the exception message."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == NAME]
    where = [f"line {frame.lineno}: " for frame in frames[-1:]]
    return [*where, *traceback.format_exception_only(error)]


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
