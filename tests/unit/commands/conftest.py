"""Call the command line in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from steelyard.cli import main

Call = Callable[..., tuple[int, str, str]]
"""Takes command-line words; returns the exit code, standard output and standard error."""


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def called(*words: str) -> tuple[int, str, str]:
        code = main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return called
