"""Wraps any constraint to exclude the tokens that the policy never samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.constraints.base import Bits, Constraint, Walk, count, members, pack
from steelyard.errors import ConstraintError
from steelyard.types import Task


class WithoutTokens:
    """Allows the tokens that ``inner`` allows, except those in ``excluded``. A token is forced if it is the only one
    left.

    Automata omit such tokens from their vocabulary instead, so that the shortest end does not depend on them.
    """

    def __init__(self, inner: Constraint, excluded: Sequence[int]) -> None:
        self.inner = inner
        self._sampled = ~pack([token for token in excluded if token < inner.vocabulary], inner.vocabulary)

    @property
    def vocabulary(self) -> int:
        return self.inner.vocabulary

    @property
    def canonical_tokens(self) -> bool:
        return self.inner.canonical_tokens

    def begin(self, task: Task) -> WalkWithoutTokens:
        return WalkWithoutTokens(self.inner.begin(task), self._sampled)

    def check_budget(self, task: Task, tokens: int) -> None:
        self.inner.check_budget(task, tokens)


@dataclass(slots=True, eq=False)
class WalkWithoutTokens:
    """The walk of another constraint, restricted to tokens that may be sampled."""

    inner: Walk
    sampled: Bits

    def allowed(self, left: int) -> Bits:
        return self.inner.allowed(left) & self.sampled

    def forced(self, left: int) -> Sequence[int]:
        run = self.inner.forced(left)
        for token in run:
            self._require_sampled(token)
        if run:
            return run
        bits = self.allowed(left)
        return (int(members(bits)[0]),) if count(bits) == 1 else ()

    def advance(self, token: int) -> None:
        self._require_sampled(token)
        self.inner.advance(token)

    def may_end(self) -> bool:
        return self.inner.may_end()

    def shortest_end(self) -> int | None:
        return self.inner.shortest_end()

    def copy(self) -> WalkWithoutTokens:
        return WalkWithoutTokens(self.inner.copy(), self.sampled)

    def _require_sampled(self, token: int) -> None:
        if not self.sampled[token // 8] >> token % 8 & 1:
            raise ConstraintError(
                f"the constraint requires token {token}, which is never sampled; allow another token, or remove "
                "this one from model.excluded_tokens"
            )
