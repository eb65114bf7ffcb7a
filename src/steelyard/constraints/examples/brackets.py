"""Balanced brackets of several kinds: the state is a stack, and the distance to the shortest end has a formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.constraints.automaton import Automaton
from steelyard.errors import ConstraintError
from steelyard.types import Task

Open = tuple[str, int]
"""The pending closing brackets (the next one last), and the number of symbols missing from the minimum length."""


@dataclass(frozen=True)
class Brackets(Automaton[Open]):
    """Balanced brackets with at most ``depth`` levels, over words or characters."""

    depth: int
    kinds: str = "()[]"
    """Pairs of opening and closing brackets."""
    least: int = 0
    """Minimum length."""

    stretch = 1

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ConstraintError(f"Brackets: depth = {self.depth} must be at least 1")
        if not self.kinds or len(self.kinds) % 2 or len(set(self.kinds)) != len(self.kinds):
            raise ConstraintError(f"Brackets: kinds = {self.kinds!r}; use pairs of distinct characters, such as '()[]'")

    def alphabet(self) -> str:
        return self.kinds

    def start(self, task: Task) -> Open:
        return "", self.least

    def moves(self, state: Open) -> Mapping[str, Open]:
        to_close, missing = state
        missing = max(missing - 1, 0)
        following = {to_close[-1]: (to_close[:-1], missing)} if to_close else {}
        if len(to_close) < self.depth:
            for opening, closing in zip(self.kinds[::2], self.kinds[1::2], strict=True):
                following[opening] = to_close + closing, missing
        return following

    def may_end(self, state: Open) -> bool:
        return state == ("", 0)

    def shortest_end(self, state: Open) -> int:
        """Close all brackets, then add pairs to reach the minimum length."""
        to_close, missing = state
        more = max(missing - len(to_close), 0)
        return len(to_close) + more + more % 2
