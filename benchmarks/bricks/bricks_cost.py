"""Building a stability program takes at most 0.3 of its HiGHS solve time; two workers verify 1.8 times as fast as one.

Build time covers everything from the bricks to a loaded solver: contacts, equations, the sparse matrix and the transfer
to HiGHS. Verification covers everything from the text to the reward, alternating between one and two pool processes.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from rich.progress import Progress

from benchmarks.bricks.random_structures import random_structure
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.verification import misbehaving
from benchmarks.verification.pool_throughput import items_per_second
from steelyard.domains.bricks import Structure, write
from steelyard.domains.bricks.contacts import contacts
from steelyard.domains.bricks.domain import Bricks
from steelyard.domains.bricks.stability import highs
from steelyard.domains.bricks.stability.physics import PUBLISHED
from steelyard.domains.bricks.stability.program import pull_program
from steelyard.domains.bricks.stability.statics import statics
from steelyard.verification import Item, ProcessPool

SIZES = (20, 35, 50, 75, 100)
STRUCTURES = 20
REPEATS = 5
VERIFIED = 400
"""Structures per round, with 20 to 50 bricks each."""
ROUNDS = 7
BUILD, TWO = 0.3, 1.8
QUICK_BUILD, QUICK_TWO = 0.4, 1.5
"""The quick bars are wider than the full ones: short measurements are noisy, and the ratio for 20 bricks, which takes
about a hundred small numpy calls, is 0.25 or 0.31 depending on the state of the CPU."""


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses 5 instead of 20 structures per size, 3 rounds and wider bars."""
    count = 5 if quick else STRUCTURES
    bar = progress.add_task("bricks", total=len(SIZES) * count)
    rows: list[dict[str, Cell]] = []
    for size in SIZES:
        progress.update(bar, description=f"{size} bricks")
        times: list[tuple[float, float, int, int]] = []
        for seed in range(count):
            times.append(time_program(random_structure(size, random.Random(f"cost {size} {seed}"))))
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
    one_worker, two_workers = rates(VERIFIED // 2 if quick else VERIFIED, 3 if quick else ROUNDS, progress)
    most, least = (QUICK_BUILD, QUICK_TWO) if quick else (BUILD, TWO)
    gains = [two / one for one, two in zip(one_worker, two_workers, strict=True)]
    figures = (
        Figure("build time / solve time", ratio, "<=", most),
        Figure("two workers / one", statistics.median(gains), ">=", least, spread=max(gains) - min(gains)),
    )
    verdicts = ", ".join(f"{one:.0f} and {two:.0f}" for one, two in zip(one_worker, two_workers, strict=True))
    note = f"Verdicts per second with one worker and with two, round by round: {verdicts}."
    return Result("bricks-cost", figures, rows, note)


def rates(count: int, rounds: int, progress: Progress) -> tuple[list[float], list[float]]:
    """Return verdicts per second with one worker and with two, in alternating rounds."""
    domain = Bricks(action="text", max_bricks=100)
    task = domain.task("train", 0)
    texts = [write(random_structure(20 + seed % 31, random.Random(f"judged {seed}"))) for seed in range(count)]
    items = [Item(task, misbehaving.item(number, text).sample, 1) for number, text in enumerate(texts)]
    pools = [ProcessPool(domain.verifier(), workers=workers) for workers in (1, 2)]
    bar = progress.add_task("pools", total=2 * rounds)
    found: tuple[list[float], list[float]] = ([], [])
    try:
        for pool in pools:
            items_per_second(pool, items[:8])
        for _ in range(rounds):
            for pool, own in zip(pools, found, strict=True):
                own.append(items_per_second(pool, items))
                progress.advance(bar)
    finally:
        for pool in pools:
            pool.close()
    return found


def time_program(structure: Structure) -> tuple[float, float, int, int]:
    """Return (median build seconds, median solve seconds, columns, rows); each repetition starts from the bricks."""
    builds: list[float] = []
    solves: list[float] = []
    program: Any = None
    for _ in range(REPEATS):
        fresh = Structure(structure.bricks, structure.world)
        (program, solver), build = timed(lambda fresh=fresh: build_program(fresh))
        _, solve = timed(lambda solver=solver: highs.run(solver))
        builds.append(build)
        solves.append(solve)
    return statistics.median(builds), statistics.median(solves), program.columns, program.rows


def build_program(structure: Structure) -> tuple[Any, Any]:
    program = pull_program(statics(structure, contacts(structure), (), PUBLISHED))
    return program, highs.load(program)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    done = work()
    return done, time.perf_counter() - start
