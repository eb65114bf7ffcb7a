"""A parser for theory texts, independent of the grammar and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

from steelyard.domains.theories.grammar.vocabulary import (
    FERMION,
    GAUGE,
    HANDS,
    INTERACTIONS,
    LEG_COUNT,
    MULTIPLETS,
    SCALAR,
    SIXTHS,
    SSB,
    Vocabulary,
    gauge_of,
    leg_word,
    ordered_legs,
)
from steelyard.domains.theories.groups.representation import cached
from steelyard.domains.theories.model.limits import Limits
from steelyard.domains.theories.model.theory import Field, Kind, Label, Leg, Term, Theory, Vev, term_kind
from steelyard.errors import DataError

WIDEST = Vocabulary(
    Limits(
        groups=99,
        abelian=99,
        largest=9,
        dimension=200,
        charge=600,
        vevs=99,
        components=1000,
        scalars=99,
        multiplets=200,
        generations=99,
        terms=999,
        vev=(-30, 30),
        coupling=(-30, 30),
        mass=(-30, 60),
    )
)
"""The largest vocabulary that can be read, independent of the limits of a grammar."""


class Reader:
    """Reads words from left to right; each private method consumes one entry or word."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words, self.at = words, 0
        self.fields: list[Field] = []

    def theory(self) -> Theory:
        self._expect(GAUGE)
        factors: list[int] = []
        while self._next() != SSB:
            factors.append(self._one_of(WIDEST.groups, "a gauge group"))
            if factors != sorted(factors):
                raise self._wrong("gauge groups in ascending order", back=1)
        if not factors:
            raise self._wrong("a gauge group")
        self.factors, self._gauge = tuple(factors), gauge_of(tuple(factors))
        self._expect(SSB)
        vevs: list[Vev] = []
        while self._next() != MULTIPLETS:
            vevs.append(self._vev())
        self._expect(MULTIPLETS)
        while self._next() != INTERACTIONS:
            self.fields.append(self._field())
        self._expect(INTERACTIONS)
        read = Theory(self._gauge, tuple(self.fields), tuple(vevs))
        terms: list[Term] = []
        while self.at < len(self.words):
            terms.append(self._term(read))
        return replace(read, terms=tuple(terms))

    def _vev(self) -> Vev:
        name = self._name(SCALAR)
        self.fields.append(self._scalar(name))
        component = self._one_of(WIDEST.components, "a component")
        labels = zip(self._gauge.special, self.fields[-1].labels, strict=True)
        if component >= prod(cached(factor.n, label).dimension for factor, label in labels):
            raise self._wrong("an existing component of the scalar", back=1)
        return Vev(name, component, self._one_of(WIDEST.numbers["vev"], "a number"))

    def _field(self) -> Field:
        if self._next()[:1] != FERMION:
            return self._scalar(self._name(SCALAR))
        name = self._name(FERMION)
        kind: Kind = self._one_of({hand: hand for hand in HANDS}, "left or right")
        labels, charges = self._charges()
        return Field(name, kind, labels, charges, self._one_of(WIDEST.generations, "a number of generations"))

    def _scalar(self, name: str) -> Field:
        return Field(name, "scalar", *self._charges())

    def _charges(self) -> tuple[tuple[Label, ...], tuple[Fraction, ...]]:
        labels = [self._one_of(WIDEST.labels[n], f"a representation of SU({n})") for n in self.factors if n > 1]
        sixths = [self._one_of(WIDEST.charges, "a charge") for n in self.factors if n == 1]
        return tuple(labels), tuple(Fraction(charge, SIXTHS) for charge in sixths)

    def _term(self, theory: Theory) -> Term:
        kind = self._one_of({kind: kind for kind in LEG_COUNT}, "a kind of term")
        names = {leg_word(field.name, star): Leg(field.name, star) for field in self.fields for star in (False, True)}
        legs = tuple(self._one_of(names, "a field") for _ in range(LEG_COUNT[kind]))
        term = Term(legs, 1.0)
        if term_kind(theory, term) != kind or ordered_legs(legs) != legs:
            raise self._wrong(f"the legs of a {kind} term in order", back=len(legs))
        return replace(term, parameter=self._one_of(WIDEST.numbers[kind], "a number"))

    def _name(self, letter: str) -> str:
        number = 1 + sum(field.fermion == (letter == FERMION) for field in self.fields)
        self._expect(f"{letter}{number}")
        return f"{letter}{number}"

    def _next(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def _expect(self, word: str) -> None:
        if self._next() != word:
            raise self._wrong(word)
        self.at += 1

    def _one_of(self, meanings: Mapping[str, Any], what: str) -> Any:
        if self._next() not in meanings:
            raise self._wrong(what)
        self.at += 1
        return meanings[self.words[self.at - 1]]

    def _wrong(self, wanted: str, *, back: int = 0) -> DataError:
        place = self.at - back
        found = f"is {self.words[place]!r}" if place < len(self.words) else "is missing"
        return DataError(f"word {place + 1} {found}; expected {wanted}")
