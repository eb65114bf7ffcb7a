"""Help for the tests of automata: all samples of a small language, random ones, and checkers that know no automaton."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from steelyard.constraints.automaton import Automaton
from steelyard.constraints.base import Constraint, Walk, members
from steelyard.types import Task

TASK = Task("t", "")


class Table(Automaton[int]):
    """An automaton from a table of moves; the end is searched for."""

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
    """All samples that fit into the budget, the end token left out; there must be no dead end."""

    def go_on(walk: Walk, so_far: tuple[int, ...], left: int) -> Iterator[tuple[int, ...]]:
        choices = members(walk.allowed(left)).tolist()
        ended = so_far and not walk.may_end() and walk.shortest_end() == 0
        assert choices or ended, f"a dead end after {so_far}"
        if ended:
            yield so_far[:-1]
        for token in choices:
            following = walk.copy()
            following.advance(token)
            yield from go_on(following, (*so_far, token), left - 1)

    return go_on(constraint.begin(task), (), budget)


def ramble(constraint: Constraint, budget: int, choose: Callable[[list[int]], int], task: Task = TASK) -> list[int]:
    """A sample made by ``choose``, the end token included; what is forced is checked against what is allowed."""
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
    """Pairs next to each other are struck out until nothing is left."""
    heights = [sum(1 if mark in kinds[::2] else -1 for mark in text[:end]) for end in range(len(text) + 1)]
    rest, before = text, ""
    while rest != before:
        before = rest
        for opening, closing in zip(kinds[::2], kinds[1::2], strict=True):
            rest = rest.replace(opening + closing, "")
    return not rest and max(heights) <= depth and len(text) >= least


def packed(words: Sequence[str], boxes: Sequence[Sequence[int]], width: int, height: int) -> bool:
    """Each box is skipped or lies on cells of the bin that no other has; nothing else is said."""
    taken: set[tuple[int, int]] = set()
    said = list(words)
    for box_width, box_height in boxes:
        if said[:1] == ["skip"]:
            del said[0]
            continue
        if len(said) < 2 or said[0][:1] != "c" or said[1][:1] != "r":
            return False
        column, row = int(said[0][1:]), int(said[1][1:])
        cells = {(column + right, row + up) for right in range(box_width) for up in range(box_height)}
        inside = column + box_width <= width and row + box_height <= height
        if not inside or cells & taken:
            return False
        taken |= cells
        del said[:2]
    return not said
