"""Python in the sandbox: state across calls, errors as text, limits per call, and crashes as failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from steelyard.errors import SandboxError
from steelyard.tools import Python, interpreter


@pytest.fixture
def python() -> Iterator[Python]:
    with closing(Python(seed=7)) as opened:
        yield opened


def test_names_live_until_the_end_of_the_episode(python: Python) -> None:
    assert python("x = 20\ndef double(n):\n    return 2 * n\nprint('set')") == "set\n"
    assert python("double(x) + 2") == "42\n"
    assert python("x = None\nx") == ""
    python.close()
    assert "NameError" in python("x"), "a new interpreter knows nothing"


def test_errors_are_output(python: Python) -> None:
    assert python("y = 1\n1 / 0") == "line 2: ZeroDivisionError: division by zero\n"
    assert "SyntaxError" in python("def f(:")
    assert "SystemExit: 3" in python("import sys\nsys.exit(3)")
    assert "MemoryError" in python("z = bytearray(1 << 40)")
    assert "EOFError" in python("input()"), "code cannot read the requests"
    assert python("y") == "1\n", "the interpreter still runs"


def test_output_is_bounded_and_code_is_stopped(python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "SECONDS", 0.5)
    long = python("print('a' * 10 ** 6)")
    assert len(long) < interpreter.OUTPUT_CHARACTERS + 100
    assert long.endswith("more characters")
    assert python("n = 1\nwhile True:\n    pass") == "stopped: the code ran longer than 0.5 s\n"
    assert python("n") == "1\n"


def test_the_same_calls_give_the_same_output_again(python: Python) -> None:
    calls = ("import random\nrandom.random()", "sorted({'b', 'a'}), hash('a')")
    first = [python(code) for code in calls]
    with closing(Python(seed=7)) as again, closing(Python(seed=8)) as other:
        assert [again(code) for code in calls] == first
        assert other(calls[0]) != first[0]


def test_a_crash_is_a_failure_and_leaves_nothing_behind(python: Python) -> None:
    with pytest.raises(SandboxError, match=r"ended before it answered.*7"):
        python("import os\nos._exit(7)")
    with pytest.raises(SandboxError, match="has ended"):
        python("1")
    assert python._session is not None
    assert not python._session._folder.exists()
