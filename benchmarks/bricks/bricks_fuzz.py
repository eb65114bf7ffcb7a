"""A million random and mutated texts through the brick parser: no crash, each a structure or a typed reason.

What is taken for a structure is checked once more, cell by cell, by code that shares nothing with the parser.
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
EACH = 1000
"""After how many texts the bar moves."""


def measure(quick: bool, progress: Progress) -> Result:
    """Quick: a hundredth of the texts."""
    count = TEXTS // 100 if quick else TEXTS
    rng = random.Random("bricks-fuzz")
    sources = texts(rng, SOURCES // 10 if quick else SOURCES)
    outcomes: Counter[str] = Counter()
    crashes: list[str] = []
    wrong = 0
    bar = progress.add_task("texts", total=count)
    for number in range(count):
        text = mutated_text(rng, sources)
        outcome = judge(text, crashes)
        outcomes[outcome if isinstance(outcome, str) else "structure"] += 1
        wrong += isinstance(outcome, Structure) and not is_whole(outcome)
        if number % EACH == 0:
            progress.update(bar, completed=number)
    progress.update(bar, completed=count)
    figures = (
        Figure("texts", float(count), ">=", float(count)),
        Figure("crashes", float(len(crashes)), "<=", 0.0),
        Figure("structures that are none", float(wrong), "<=", 0.0),
        Figure("kinds of reason met", float(sum(outcomes[reason] > 0 for reason in Reason)), ">=", float(len(Reason))),
        Figure("share that are structures", outcomes["structure"] / count, ">=", 0.1),
    )
    rows: list[dict[str, Cell]] = [{"outcome": str(name), "texts": found} for name, found in outcomes.most_common()]
    return Result("bricks-fuzz", figures, rows, "; ".join(crashes[:5]))


def judge(text: str, crashes: list[str]) -> Structure | str:
    """The structure, the kind of its first flaw, or ``crash``, which is noted down."""
    try:
        return parse(text, PLAIN)
    except InvalidStructureError as error:
        return error.flaw.reason.value if isinstance(error.flaw.reason, Reason) else "no reason"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
        crashes.append(f"{type(error).__name__} on {text!r}"[:200])
        return "crash"


def is_whole(structure: Structure) -> bool:
    """Known parts, cells inside the world and used once, every brick on a way to the ground, the same text again."""
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
