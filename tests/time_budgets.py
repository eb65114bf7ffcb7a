"""A pytest plugin that lists the tests that exceeded the time budget of their folder.

Exceeding the budget is not a failure, because times depend on the machine as much as on the test. The summary lists
such tests, and `.ci/run` lists them again at the end. If ``STEELYARD_TIMINGS`` names a file, the wall time of every
test is appended to it, one JSON object per line.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

BUDGETS = {"unit": 5.0, "property": 10.0, "golden": 10.0, "learning": 10.0, "faults": 30.0, "e2e": 30.0}
"""Seconds of wall time per test on two idle cores, including setup and teardown."""
TIMINGS = "STEELYARD_TIMINGS"


class TimeBudgets:
    """Adds up setup, call and teardown of every test; under xdist, only the controller sees all of them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def over_budget(self) -> list[tuple[float, float, str]]:
        """Return (seconds, budget, test), longest first."""
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
    """Return the budget of the test's folder."""
    return BUDGETS.get(test.split("/")[1], BUDGETS["e2e"])
