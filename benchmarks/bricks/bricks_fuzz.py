"""Given a million random and mutated texts, the brick parser returns a structure or a typed reason and never crashes.

Code that shares nothing with the parser rechecks every accepted structure cell by cell.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

from rich.progress import Progress

from benchmarks.bricks.random_structures import PLAIN, mutated_text, texts
from benchmarks.framework.result import Cell, Figure, Result
from steelyard.domains.bricks import InvalidStructureError, Reason, Structure, parse, write

TEXTS = 1_000_000
SOURCES = 2000
UPDATE_EVERY = 1000
"""Number of texts between updates of the progress bar."""


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses a hundredth of the texts."""
    count = TEXTS // 100 if quick else TEXTS
    rng = random.Random("bricks-fuzz")
    sources = texts(rng, SOURCES // 10 if quick else SOURCES)
    outcomes: Counter[str] = Counter()
    crashes: list[str] = []
    wrong = 0
    bar = progress.add_task("texts", total=count)
    for number in range(count):
        text = mutated_text(rng, sources)
        outcome = parse_outcome(text, crashes)
        outcomes[outcome if isinstance(outcome, str) else "structure"] += 1
        wrong += isinstance(outcome, Structure) and not is_valid(outcome)
        if number % UPDATE_EVERY == 0:
            progress.update(bar, completed=number)
    progress.update(bar, completed=count)
    figures = (
        Figure("texts", float(count), ">=", float(count)),
        Figure("crashes", float(len(crashes)), "<=", 0.0),
        Figure("invalid structures accepted", float(wrong), "<=", 0.0),
        Figure("reasons that occur", float(sum(outcomes[reason] > 0 for reason in Reason)), ">=", float(len(Reason))),
        Figure("share of valid structures", outcomes["structure"] / count, ">=", 0.1),
    )
    rows: list[dict[str, Cell]] = [{"outcome": str(name), "texts": found} for name, found in outcomes.most_common()]
    return Result("bricks-fuzz", figures, rows, "; ".join(crashes[:5]))


def parse_outcome(text: str, crashes: list[str]) -> Structure | str:
    """Return the structure, the kind of the first error, or ``crash``; a crash is also added to ``crashes``."""
    try:
        return parse(text, PLAIN)
    except InvalidStructureError as error:
        return error.flaw.reason.value if isinstance(error.flaw.reason, Reason) else "no reason"
    except Exception as error:  # noqa: BLE001 - every crash is counted
        crashes.append(f"{type(error).__name__} on {text!r}"[:200])
        return "crash"


def is_valid(structure: Structure) -> bool:
    """Check that parts are known, cells are in the world and unique, bricks are grounded, and the text round-trips."""
    owner: dict[tuple[int, int, int], int] = {}
    for number, (h, w, x, y, z) in enumerate(structure.bricks):
        if f"{h}x{w}" not in str(structure.world.library).split():
            return False
        for cell in product(range(x, x + h), range(y, y + w), [z]):
            if cell in owner or not all(0 <= c < size for c, size in zip(cell, structure.world.size, strict=True)):
                return False
            owner[cell] = number
    return _reach_ground(owner, len(structure)) and parse(write(structure), structure.world) == structure


def _reach_ground(owner: dict[tuple[int, int, int], int], bricks: int) -> bool:
    links: dict[int, set[int]] = {number: set() for number in range(bricks)}
    for (x, y, z), number in owner.items():
        if (above := owner.get((x, y, z + 1))) is not None:
            links[number].add(above)
            links[above].add(number)
    todo = [number for (_, _, z), number in owner.items() if z == 0]
    seen = set(todo)
    while todo:
        new = links[todo.pop()] - seen
        seen |= new
        todo += new
    return len(seen) == bricks
