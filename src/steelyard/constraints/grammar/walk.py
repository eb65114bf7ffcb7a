"""The state of a grammar for one sample."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from steelyard.constraints.base import Bits, count, members, pack
from steelyard.constraints.grammar.tokens import TokenTable
from steelyard.errors import ConstraintError

if TYPE_CHECKING:
    from llguidance import LLMatcher


class GrammarWalk:
    """The state of a sample in its grammar.

    If the next characters are forced, a canonical run uses the tokenizer's own tokens for them. The run is computed at
    its start and then followed to its end, so it depends only on the tokens so far: in the middle of a run, the engine
    might tokenize the rest differently.
    """

    __slots__ = ("_bits", "_canonical", "_ended", "_matcher", "_run", "_table")

    def __init__(self, table: TokenTable, matcher: LLMatcher, canonical: bool) -> None:
        self._table = table
        self._matcher = matcher
        self._canonical = canonical
        self._bits: Bits | None = None
        self._run: tuple[int, ...] = ()
        self._ended = False
        self._look_ahead()

    def allowed(self, left: int) -> Bits:
        """Return the engine's mask; with one token left, allow only the end token if the sample may end."""
        if self._bits is None:
            self._bits = self._mask()
        if left <= 1 and _has(self._bits, self._table.end_id):
            return pack([self._table.end_id], self._table.vocabulary)
        return self._bits

    def forced(self, left: int) -> Sequence[int]:
        if left < 1 or self._ended:
            return ()
        if self._run:
            return self._run[:left]
        bits = self.allowed(left)
        return (int(members(bits)[0]),) if count(bits) == 1 else ()

    def advance(self, token: int) -> None:
        if self._ended:
            raise ConstraintError(f"token {token} is not allowed after the end of the sample")
        if token == self._table.end_id:
            if not self.may_end():
                raise ConstraintError("the end token is not allowed before the sentence is complete")
            self._ended, self._bits = True, None
            return
        if self._run and token != self._run[0]:
            raise ConstraintError(f"token {token} is not allowed: the canonical run continues with {self._run[0]}")
        if not _has(self._table.plain, token) or self._matcher.try_consume_tokens([token]) != 1:
            check(self._matcher)
            raise ConstraintError(f"token {token} is not allowed by the grammar at this position")
        self._bits = None
        self._run = self._run[1:]
        if not self._run:
            self._look_ahead()

    def may_end(self) -> bool:
        return not self._ended and not self._run and self._matcher.is_accepting()

    def shortest_end(self) -> int | None:
        """Return 1 if the sample may end, else None (unknown)."""
        return 1 if self.may_end() else None

    def copy(self) -> GrammarWalk:
        other = copy(self)
        other._matcher = self._matcher.deep_copy()
        return other

    def _look_ahead(self) -> None:
        if not self._canonical:
            return
        run = self._matcher.compute_ff_tokens()
        check(self._matcher)
        special = next((place for place, token in enumerate(run) if not _has(self._table.plain, token)), len(run))
        self._run = tuple(run[:special])

    def _mask(self) -> Bits:
        if self._ended:
            return np.zeros_like(self._table.plain)
        if self._run:
            return pack(self._run[:1], self._table.vocabulary)
        may_end = self._matcher.is_accepting()
        bits = np.zeros_like(self._table.plain)
        raw = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)[: len(bits)]
        if self._matcher.is_error():
            if not self._matcher.get_error().startswith("NoExtension"):
                check(self._matcher)
            return bits  # dead end: the grammar allows no token
        np.bitwise_and(raw, self._table.plain[: len(raw)], out=bits[: len(raw)])
        if may_end:
            bits[self._table.end_id // 8] |= 1 << self._table.end_id % 8
        return bits


def _has(bits: Bits, token: int) -> bool:
    return 0 <= token < 8 * len(bits) and bool(bits[token // 8] >> token % 8 & 1)


def check(matcher: LLMatcher) -> None:
    if matcher.is_error():
        raise ConstraintError(matcher.get_error().partition("\n<state>")[0].strip())
