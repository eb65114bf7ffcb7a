"""Bubblewrap stops every escape attempt, and the basic level stops the ones it is documented to stop.

Every escape in ``escapes.py`` is attempted without a sandbox (where it must work, otherwise stopping it proves nothing)
and at each level available on this machine. An escape counts as stopped if it was stopped in every round.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence

from rich.progress import Progress

from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.verification.escapes import Escape, Outcome, Place, attempt_escape, escapes, levels
from steelyard.verification.sandbox import Level, describe_level, run_code

ROUNDS = 3
EMPTY_RUNS = 15
Table = Mapping[Place, Mapping[str, Sequence[Outcome]]]


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version takes one round instead of three."""
    rounds, there = (1 if quick else ROUNDS), levels()
    places: tuple[Place, ...] = ("without", *there)
    bar = progress.add_task("escapes", total=len(places) * len(escapes()) * rounds)
    outcomes: dict[Place, dict[str, list[Outcome]]] = {place: {} for place in places}
    for escape in escapes():
        progress.update(bar, description=escape.name)
        for place in places:
            for _ in range(rounds):
                outcomes[place].setdefault(escape.name, []).append(attempt_escape(escape, place))
                progress.advance(bar)
    seconds: dict[Level, list[float]] = {level: empty_program(level, 3 if quick else EMPTY_RUNS) for level in there}
    return Result("sandbox", figures(outcomes, seconds), [row(escape, outcomes) for escape in escapes()], note(there))


def figures(outcomes: Table, seconds: Mapping[Level, Sequence[float]]) -> tuple[Figure, ...]:
    names = [escape.name for escape in escapes()]
    claimed = [escape.name for escape in escapes() if escape.basic_stops]
    working = sum(all(outcome.worked for outcome in outcomes["without"][name]) for name in names)
    found = [
        Figure("escapes that work without a sandbox", working, ">=", len(names)),
        Figure("claimed escapes stopped by the basic level", stopped(outcomes["basic"], claimed), ">=", len(claimed)),
    ]
    if "bubblewrap" in outcomes:
        found.append(Figure("escapes stopped by bubblewrap", stopped(outcomes["bubblewrap"], names), ">=", len(names)))
    left = sum(tries.left_running for level in seconds for row in outcomes[level].values() for tries in row)
    found.append(Figure("processes left running at any level", left, "<=", 0))
    for level, times in seconds.items():
        spread = max(times) - min(times)
        found.append(Figure(f"time of an empty program, {level}", statistics.median(times), "<=", 1, "s", spread))
    return tuple(found)


def stopped(outcomes: Mapping[str, Sequence[Outcome]], names: Sequence[str]) -> int:
    return sum(not any(outcome.worked for outcome in outcomes[name]) for name in names)


def row(escape: Escape, outcomes: Table) -> dict[str, Cell]:
    cells: dict[str, Cell] = {"escape": escape.name}
    for place, tries in outcomes.items():
        worked, count = sum(outcome.worked for outcome in tries[escape.name]), len(tries[escape.name])
        if place == "without":
            cells["without a sandbox"] = "works" if worked == count else f"works in {worked} of {count}"
        else:
            claimed = place == "bubblewrap" or escape.basic_stops
            kept = "stopped" if claimed else "stopped, not guaranteed"
            cells[place] = {0: kept, count: "**not stopped**"}.get(worked, f"**works in {worked} of {count}**")
    return cells


def empty_program(level: Level, runs: int) -> list[float]:
    """Return the seconds from call to return, including the start of Python."""
    return [_timed(level) for _ in range(runs)]


def _timed(level: Level) -> float:
    started = time.perf_counter()
    assert run_code("", level=level).ok
    return time.perf_counter() - started


def note(there: Sequence[Level]) -> str:
    who = "root" if os.geteuid() == 0 else "an ordinary user"
    kernel = platform.release().partition("-")[0]
    tried_at = f"Attempted as {who} on {platform.system()} {kernel}, at the levels {' and '.join(there)}"
    if "bubblewrap" in there:
        version = subprocess.run(["bwrap", "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]
        return f"{tried_at} {version}."
    return f"{tried_at}. Bubblewrap was not attempted: the level in force is {describe_level()}."
