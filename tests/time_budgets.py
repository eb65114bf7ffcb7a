"""pytest plugin: names the tests that took longer than the time budget of their folder.

A test over budget does not fail: how long it takes says as much about the machine as about the test. It is named in the
summary, and `.ci/run` names it again at the end. With ``STEELYARD_TIMINGS`` set to a file, the wall time of every test
is appended to it, one JSON object per line.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

BUDGETS = {"unit": 5.0, "property": 10.0, "golden": 10.0, "learning": 10.0, "faults": 30.0, "e2e": 30.0}
"""Seconds of wall time per test on two cores that run nothing else, setup and teardown included."""
TIMINGS = "STEELYARD_TIMINGS"


class TimeBudgets:
    """Adds up the phases of every test; under xdist only the controlling process sees them all."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def over_budget(self) -> list[tuple[float, float, str]]:
        """(seconds, budget, test), the longest first."""
        rows = [(seconds, budget_of(test), test) for test, seconds in self.seconds.items()]
        return sorted((row for row in rows if row[0] > row[1]), reverse=True)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for seconds, budget, test in self.over_budget():
            terminalreporter.write_line(f"over budget: {seconds:.1f} s (budget {budget:g} s)  {test}")
        if path := os.environ.get(TIMINGS):
            lines = [json.dumps({"test": test, "seconds": round(s, 3)}) for test, s in self.seconds.items()]
            with Path(path).open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)


def budget_of(test: str) -> float:
    """The budget of the folder below ``tests`` that holds the test."""
    return BUDGETS.get(test.split("/")[1], BUDGETS["e2e"])
