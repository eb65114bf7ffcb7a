"""The tutorial's code runs and is as long as stated."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

from steelyard.constraints.automaton import WordConstraint
from steelyard.constraints.base import Constraint
from steelyard.types import Task
from tests.automata import samples

PAGE = Path(__file__).parents[3] / "docs/constraint-tutorial.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def page_names() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "tutorial"}
    (code,) = blocks("python")
    exec(compile(code, str(PAGE), "exec"), names)
    return names


def test_the_constraint_has_at_most_forty_lines() -> None:
    (code,) = blocks("python")
    assert len(code.splitlines()) <= 40


def test_the_sessions_of_the_page_print_what_they_show() -> None:
    sessions = blocks("pycon")
    assert len(sessions) == 4
    parsed = doctest.DocTestParser().get_doctest("".join(sessions), page_names(), "tutorial", str(PAGE), 0)
    report: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(parsed, out=report.append)
    assert results.failed == 0, "".join(report)
    assert results.attempted == 15


def test_the_samples_are_exactly_the_ways_to_pay() -> None:
    words = ["<eos>", "1", "2", "3", "5"]
    constraint = WordConstraint(page_names()["Change"](), words, 0)
    assert isinstance(constraint, Constraint)
    task = Task("six", "", {"amount": 6, "purse": [5, 3, 3, 2, 2, 2, 1]})
    paid = {tuple(sorted(int(words[token]) for token in tokens)) for tokens in samples(constraint, 4, task)}
    assert paid == {(1, 5), (3, 3), (1, 2, 3), (2, 2, 2)}
