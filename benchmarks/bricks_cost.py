"""Building a stability program takes at most 0.3 of the time HiGHS needs to solve it, from 20 to 100 bricks.

Built is all from the bricks to a solver that holds the program: contacts, equations, the sparse matrix, the hand-over.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from rich.progress import Progress

from benchmarks.heaps import heap
from benchmarks.result import Cell, Figure, Result
from steelyard.domains.bricks import Structure
from steelyard.domains.bricks.contacts import contacts
from steelyard.domains.bricks.stability import highs
from steelyard.domains.bricks.stability.physics import PUBLISHED
from steelyard.domains.bricks.stability.program import pull_program
from steelyard.domains.bricks.stability.statics import statics

SIZES = (20, 35, 50, 75, 100)
STRUCTURES = 20
REPEATS = 5


def measure(quick: bool, progress: Progress) -> Result:
    """Quick: five structures of each size instead of twenty."""
    count = 5 if quick else STRUCTURES
    bar = progress.add_task("bricks", total=len(SIZES) * count)
    rows: list[dict[str, Cell]] = []
    for size in SIZES:
        progress.update(bar, description=f"{size} bricks")
        times: list[tuple[float, float, int, int]] = []
        for seed in range(count):
            times.append(one(heap(size, random.Random(f"cost {size} {seed}"))))
            progress.advance(bar)
        build, solve, columns, lines = (statistics.mean(column) for column in zip(*times, strict=True))
        rows.append(
            {
                "bricks": size,
                "columns": columns,
                "rows": lines,
                "build ms": build * 1e3,
                "solve ms": solve * 1e3,
                "build / solve": build / solve,
            }
        )
    ratio = max(float(row["build / solve"]) for row in rows)
    return Result("bricks-cost", (Figure("build time / solve time", ratio, "<=", 0.3),), rows)


def one(structure: Structure) -> tuple[float, float, int, int]:
    """Median seconds to build and to solve, columns and rows. Each repetition starts from the bare bricks."""
    builds: list[float] = []
    solves: list[float] = []
    program: Any = None
    for _ in range(REPEATS):
        fresh = Structure(structure.bricks, structure.world)
        (program, solver), build = timed(lambda fresh=fresh: built(fresh))
        _, solve = timed(lambda solver=solver: highs.run(solver))
        builds.append(build)
        solves.append(solve)
    return statistics.median(builds), statistics.median(solves), program.columns, program.rows


def built(structure: Structure) -> tuple[Any, Any]:
    program = pull_program(statics(structure, contacts(structure), (), PUBLISHED))
    return program, highs.load(program)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    done = work()
    return done, time.perf_counter() - start
