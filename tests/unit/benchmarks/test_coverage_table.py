"""For every benchmark, docs/ci.md lists the tests that check its claim in the CI gate."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.framework import catalogue

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([a-z0-9-]+)` \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE)


def test_every_benchmark_has_one_row() -> None:
    assert [name for name, _ in ROWS] == list(catalogue.names())


@pytest.mark.parametrize(("benchmark", "tests"), ROWS, ids=[name for name, _ in ROWS])
def test_the_named_tests_exist(benchmark: str, tests: str) -> None:
    named = re.findall(r"`(tests/[^`:]+)(?:::([^`]+))?`", tests)
    assert named or benchmark == "ci"
    for path, function in named:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert f"def {function or 'test_'}" in text, f"{path}::{function}"
