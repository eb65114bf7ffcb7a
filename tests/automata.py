"""Helpers for automaton tests: all samples in a small language, random samples, and independent checkers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from steelyard.constraints.automaton import Automaton
from steelyard.constraints.base import Constraint, Walk, members
from steelyard.types import Task

TASK = Task("t", "")


class Table(Automaton[int]):
    """An automaton defined by a table of moves; the distance to an end is found by search."""

    def __init__(
        self, moves: Mapping[int, Mapping[str, int]], ends: Sequence[int], *, search_limit: int = 1_000
    ) -> None:
        self.table, self.ends, self.search_limit = moves, ends, search_limit

    def start(self, task: Task) -> int:
        return 0

    def moves(self, state: int) -> Mapping[str, int]:
        return self.table.get(state, {})

    def may_end(self, state: int) -> bool:
        return state in self.ends


def samples(constraint: Constraint, budget: int, task: Task = TASK) -> Iterator[tuple[int, ...]]:
    """Yield all samples that fit the budget, without the end token; assert that there is no dead end."""

    def continuations(walk: Walk, prefix: tuple[int, ...], left: int) -> Iterator[tuple[int, ...]]:
        choices = members(walk.allowed(left)).tolist()
        ended = prefix and not walk.may_end() and walk.shortest_end() == 0
        assert choices or ended, f"a dead end after {prefix}"
        if ended:
            yield prefix[:-1]
        for token in choices:
            following = walk.copy()
            following.advance(token)
            yield from continuations(following, (*prefix, token), left - 1)

    return continuations(constraint.begin(task), (), budget)


def ramble(constraint: Constraint, budget: int, choose: Callable[[list[int]], int], task: Task = TASK) -> list[int]:
    """Return a sample drawn with ``choose``, including the end token; assert that forced tokens are allowed."""
    walk, tokens = constraint.begin(task), list[int]()
    while walk.shortest_end() != 0:
        left = budget - len(tokens)
        choices = members(walk.allowed(left)).tolist()
        assert choices, f"a dead end after {tokens}"
        run = list(walk.forced(left))
        assert (len(choices) == 1) == bool(run)
        assert run[:1] == choices[: len(run[:1])]
        for token in run or [choose(choices)]:
            assert token in members(walk.allowed(budget - len(tokens)))
            walk.advance(token)
            tokens.append(token)
    assert not members(walk.allowed(budget)).size
    return tokens


def balanced(text: str, depth: int, kinds: str = "()[]", least: int = 0) -> bool:
    """Check brackets by removing adjacent pairs until nothing is left."""
    heights = [sum(1 if mark in kinds[::2] else -1 for mark in text[:end]) for end in range(len(text) + 1)]
    rest, before = text, ""
    while rest != before:
        before = rest
        for opening, closing in zip(kinds[::2], kinds[1::2], strict=True):
            rest = rest.replace(opening + closing, "")
    return not rest and max(heights) <= depth and len(text) >= least


def packed(words: Sequence[str], boxes: Sequence[Sequence[int]], width: int, height: int) -> bool:
    """Check that each box is skipped or lies on free cells of the bin, and that there are no other words."""
    taken: set[tuple[int, int]] = set()
    rest = list(words)
    for box_width, box_height in boxes:
        if rest[:1] == ["skip"]:
            del rest[0]
            continue
        if len(rest) < 2 or rest[0][:1] != "c" or rest[1][:1] != "r":
            return False
        column, row = int(rest[0][1:]), int(rest[1][1:])
        cells = {(column + right, row + up) for right in range(box_width) for up in range(box_height)}
        inside = column + box_width <= width and row + box_height <= height
        if not inside or cells & taken:
            return False
        taken |= cells
        del rest[:2]
    return not rest
