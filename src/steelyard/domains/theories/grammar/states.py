"""States of the grammar: the theory written so far and the current entry.

An entry is one multiplet, one vacuum expectation value or one term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from steelyard.domains.theories.grammar.allowed_terms import Multiplet, TermTree, allowed_terms
from steelyard.domains.theories.grammar.vocabulary import FERMION, SSB


@dataclass(frozen=True)
class FieldContent:
    """The gauge group and the fields written so far."""

    factors: tuple[int, ...] = ()
    """Factors of the gauge group: 1 for U(1), n for SU(n)."""
    fields: tuple[Multiplet, ...] = ()

    @cached_property
    def fermions(self) -> int:
        return sum(field.kind != "scalar" for field in self.fields)

    @property
    def scalars(self) -> int:
        return len(self.fields) - self.fermions

    @cached_property
    def terms(self) -> TermTree:
        """All terms that the fields allow."""
        return allowed_terms(self.factors, self.fields)


class TextState(NamedTuple):
    """The state of a partially written theory text."""

    content: FieldContent = FieldContent()
    block: str = ""
    entry: tuple[str, ...] = ()
    """Words of the unfinished entry."""
    terms: tuple[tuple[str, ...], ...] = ()
    """Finished terms without their parameters."""
    needs_fermion: bool = True
    """Whether at least one more fermion is required."""
    forced: tuple[str, ...] = ()
    """Words of given terms still to be written at the start of the interactions."""
    view: tuple[Any, ...] = ()
    """The part of the state that determines the allowed words; see :meth:`TheoryGrammar.view`."""


class GivenPrefix(NamedTuple):
    """The state inside the prefix given by a task: the remaining words and the state after them."""

    words: tuple[str, ...]
    next_state: TextState


State = TextState | GivenPrefix


class Slot(NamedTuple):
    """One position in an entry, with the n of its gauge factor if it belongs to one."""

    name: str
    n: int = 0


@lru_cache(maxsize=4096)
def slots(factors: tuple[int, ...], block: str, letter: str) -> tuple[Slot, ...]:
    """Return the slots of a scalar or fermion entry, name first. In ``SSB``, the slots include the expectation
    value.
    """
    charges = [Slot("representation", n) for n in factors if n > 1] + [Slot("charge", n) for n in factors if n == 1]
    if letter == FERMION:
        return Slot("name"), Slot("hand"), *charges, Slot("generations")
    return Slot("name"), *charges, *((Slot("component"), Slot("vev")) if block == SSB else ())


class LazySuccessors(Mapping[str, State]):
    """Maps each allowed word to the next state, which is built on access."""

    def __init__(self, words: tuple[str, ...], successor: Callable[[str], State]) -> None:
        self.words, self.successor = words, successor

    def __getitem__(self, word: str) -> State:
        if word not in self.words:
            raise KeyError(word)
        return self.successor(word)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __len__(self) -> int:
        return len(self.words)
