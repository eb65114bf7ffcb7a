"""An in-memory terminal that records a program's output on a pseudo-terminal as text and as images."""

from __future__ import annotations

import codecs
import fcntl
import io
import os
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from itertools import groupby

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

ROWS = 50
TOKEN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[^\[]|[^\x1b]", re.DOTALL)
CONTROLLED = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY); os.execv(sys.argv[1], sys.argv[1:])"
"""Makes the pseudo-terminal the program's controlling terminal so that the program receives keyboard signals."""
UNFINISHED = re.compile(r"\x1b(\[[0-9;?]*)?\Z")


class Screen:
    """Interprets the output of rich's live displays: text, colours, line ends, cursor up, and erased lines."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.wrapped: list[str] = []
        """The first characters of lines that were too long for the terminal."""
        self._lines: list[list[tuple[str, str]]] = [[]]
        self._row = self._column = 0
        self._style, self._held = "", ""

    def feed(self, text: str) -> None:
        text = self._held + text
        unfinished = UNFINISHED.search(text)
        self._held = unfinished[0] if unfinished else ""
        for token in TOKEN.findall(text[: len(text) - len(self._held)]):
            self._obey(token)

    def _obey(self, token: str) -> None:
        if token == "\r":
            self._column = 0
        elif token == "\n":
            self._down()
        elif token.endswith("A") and token.startswith("\x1b["):
            self._row = max(0, self._row - int(token[2:-1] or 1))
        elif token == "\x1b[2K":
            self._lines[self._row] = []
        elif token.endswith("m") and token.startswith("\x1b["):
            self._style = "" if token in ("\x1b[0m", "\x1b[m") else self._style + token
        elif token.isprintable():
            self._write(token)

    def _down(self) -> None:
        self._row, self._column = self._row + 1, 0
        if self._row == len(self._lines):
            self._lines.append([])

    def _write(self, letter: str) -> None:
        if self._column + cell_len(letter) > self.columns:
            self.wrapped.append(self.text()[self._row])
            self._down()
        line = self._lines[self._row]
        line.extend([(" ", "")] * (self._column + 1 - len(line)))
        line[self._column] = (letter, self._style)
        self._column += 1

    def text(self) -> list[str]:
        return ["".join(letter for letter, _ in line).rstrip() for line in self._lines]

    def picture(self, title: str, rows: int = 24) -> str:
        """Return the last rows as SVG."""
        console = Console(record=True, width=self.columns, file=io.StringIO(), force_terminal=True, _environ={})
        used = [number for number, line in enumerate(self.text()) if line][-rows:]
        for line in self._lines[used[0] : used[-1] + 1] if used else []:
            runs = groupby(line, key=lambda cell: cell[1])
            spans = ["".join([style, *(letter for letter, _ in cells), "\x1b[0m"]) for style, cells in runs]
            console.print(Text.from_ansi("".join(spans)), no_wrap=True)
        return console.export_svg(title=title)


class Terminal:
    """A program and the screen it draws on."""

    def __init__(self, command: Sequence[str], columns: int, environment: Mapping[str, str]) -> None:
        self.screen = Screen(columns)
        self.keyboard, theirs = os.openpty()
        """Our end of the pseudo-terminal, for reading and writing."""
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        hidden = ("NO_COLOR", "COLUMNS", "LINES")
        plain = {name: value for name, value in environment.items() if name not in hidden}
        plain["TERM"] = "xterm-256color"
        self.process = subprocess.Popen(
            [sys.executable, "-c", CONTROLLED, *command],
            env=plain,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, seconds: float) -> bool:
        """Draw the program's new output, waiting up to ``seconds`` for it; return False once the program has ended."""
        if not select.select([self.keyboard], [], [], seconds)[0]:
            return True
        try:
            written = os.read(self.keyboard, 1 << 16)
        except OSError:  # raised on Linux when the other end is closed
            written = b""
        self.screen.feed(self._decoder.decode(written))
        return bool(written)

    def press(self, keys: str) -> None:
        """Type keys; the terminal echoes them, and Ctrl-C becomes a signal."""
        os.write(self.keyboard, keys.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.keyboard)
