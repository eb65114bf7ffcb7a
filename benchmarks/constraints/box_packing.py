"""Packing boxes into a bin: tasks, vocabulary and reward for learning under a constraint."""

from __future__ import annotations

import random
from typing import Any

from benchmarks.constraints.constrained_policies import BOXES

SIDE = 5
BOXES_PER_TASK = 6
SIZES = tuple((width, height) for width in (1, 2, 3) for height in (1, 2, 3))
WORDS = ("pack", "=", "skip", *(f"{w}x{h}" for w, h in SIZES), *(f"{axis}{i}" for axis in "cr" for i in range(SIDE)))
CONSTRAINT: dict[str, Any] = {
    "kind": "automaton",
    "source": BOXES,
    "options": {"width": SIDE, "height": SIDE},
    "symbols": "words",
}
NEW_TOKENS = 2 * BOXES_PER_TASK + 1


def tasks(split: str, count: int) -> list[dict[str, Any]]:
    """Return tasks with random boxes; each split has its own seed."""
    rng = random.Random(f"packing {split}")
    chosen = [[list(rng.choice(SIZES)) for _ in range(BOXES_PER_TASK)] for _ in range(count)]
    return [{"prompt": f"pack {' '.join(f'{w}x{h}' for w, h in boxes)} =", "boxes": boxes} for boxes in chosen]


def parse_packing(boxes: list[list[int]], text: str) -> list[tuple[int, int, int, int]] | None:
    """Return (column, row, width, height) of every placed box, or None if the text is not a valid packing.

    The function marks cells one by one without using the automaton, so it can be used to check the automaton.
    """
    words, taken, found = text.split(), set[tuple[int, int]](), list[tuple[int, int, int, int]]()
    for width, height in boxes:
        if not words:
            return None
        word = words.pop(0)
        if word == "skip":
            continue
        if not words or word[0] != "c" or words[0][0] != "r":
            return None
        column, row = int(word[1:]), int(words.pop(0)[1:])
        cells = {(column + x, row + y) for x in range(width) for y in range(height)}
        if cells & taken or any(x >= SIDE or y >= SIDE for x, y in cells):
            return None
        taken |= cells
        found.append((column, row, width, height))
    return None if words else found


def check(task: Any, text: str) -> float:
    """Return the filled area divided by the largest area that could be filled."""
    boxes = task.spec["boxes"]
    found = parse_packing(boxes, text)
    if found is None:
        return 0.0
    possible = min(sum(width * height for width, height in boxes), SIDE * SIDE)
    return sum(width * height for _, _, width, height in found) / possible
