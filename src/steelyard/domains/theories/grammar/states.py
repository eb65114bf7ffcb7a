"""The states of the grammar: what a text has said so far, and the parts that the piece it is at has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from steelyard.domains.theories.grammar.allowed_terms import Multiplet, TermTree, allowed_terms
from steelyard.domains.theories.grammar.vocabulary import FERMION, SSB


@dataclass(frozen=True)
class FieldContent:
    """The gauge group and the fields so far."""

    factors: tuple[int, ...] = ()
    """1 for a U(1), n for an SU(n)."""
    fields: tuple[Multiplet, ...] = ()

    @cached_property
    def fermions(self) -> int:
        return sum(field.kind != "scalar" for field in self.fields)

    @property
    def scalars(self) -> int:
        return len(self.fields) - self.fermions

    @cached_property
    def terms(self) -> TermTree:
        """All that the fields allow."""
        return allowed_terms(self.factors, self.fields)


class TextState(NamedTuple):
    """Where a text is."""

    content: FieldContent = FieldContent()
    block: str = ""
    entry: tuple[str, ...] = ()
    """The words of the piece that was begun."""
    terms: tuple[tuple[str, ...], ...] = ()
    """The terms that were said, without their parameters."""
    needs_fermion: bool = True
    """Whether a fermion has still to come."""
    forced: tuple[str, ...] = ()
    """The words of terms that come first among the interactions."""
    view: tuple[Any, ...] = ()
    """What decides which words may come; see :meth:`TheoryGrammar.view`."""


class GivenPrefix(NamedTuple):
    """The beginning of a text that a task gives: the words that are left of it, and where they lead."""

    words: tuple[str, ...]
    next_state: TextState


State = TextState | GivenPrefix


class Slot(NamedTuple):
    """A part of a piece: what it says and of which factor of the gauge group."""

    name: str
    n: int = 0


@lru_cache(maxsize=4096)
def slots(factors: tuple[int, ...], block: str, letter: str) -> tuple[Slot, ...]:
    """The parts of a scalar or a fermion, its name the first; in ``SSB`` with its expectation value."""
    charges = [Slot("representation", n) for n in factors if n > 1] + [Slot("charge", n) for n in factors if n == 1]
    if letter == FERMION:
        return Slot("name"), Slot("hand"), *charges, Slot("generations")
    return Slot("name"), *charges, *((Slot("component"), Slot("vev")) if block == SSB else ())


class LazySuccessors(Mapping[str, State]):
    """Where the words that may come lead; a state is made only for a word that is asked for."""

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
