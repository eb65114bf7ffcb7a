"""Balanced brackets of several kinds: a stack in the state, and an end that has a formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.constraints.automaton import Automaton
from steelyard.errors import ConstraintError
from steelyard.types import Task

Open = tuple[str, int]
"""The brackets that must be closed, the next one last, and how many symbols are owed to the shortest length."""


@dataclass(frozen=True)
class Brackets(Automaton[Open]):
    """Balanced brackets, at most ``depth`` within each other; over words and over characters alike."""

    depth: int
    kinds: str = "()[]"
    """Opening and closing bracket of each kind in turn."""
    least: int = 0
    """The shortest length."""

    stretch = 1

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ConstraintError(f"Brackets: depth is {self.depth}; it must be at least 1")
        if not self.kinds or len(self.kinds) % 2 or len(set(self.kinds)) != len(self.kinds):
            raise ConstraintError(f"Brackets: kinds is {self.kinds!r}; give pairs of different characters, as '()[]'")

    def alphabet(self) -> str:
        return self.kinds

    def start(self, task: Task) -> Open:
        return "", self.least

    def moves(self, state: Open) -> Mapping[str, Open]:
        to_close, owed = state
        owed = max(owed - 1, 0)
        following = {to_close[-1]: (to_close[:-1], owed)} if to_close else {}
        if len(to_close) < self.depth:
            for opening, closing in zip(self.kinds[::2], self.kinds[1::2], strict=True):
                following[opening] = to_close + closing, owed
        return following

    def may_end(self, state: Open) -> bool:
        return state == ("", 0)

    def shortest_end(self, state: Open) -> int:
        """Close all, then open and close until nothing is owed: an even number of symbols more."""
        to_close, owed = state
        more = max(owed - len(to_close), 0)
        return len(to_close) + more + more % 2
