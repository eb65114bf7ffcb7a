"""Theory texts handled without the grammar: validity, enumeration within small limits, and mutation."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from functools import cache

from steelyard.domains.theories.grammar.text import read, write
from steelyard.domains.theories.grammar.vocabulary import (
    LEG_COUNT,
    charge_word,
    group_word,
    number_word,
    representation_word,
)
from steelyard.domains.theories.model.limits import Limits, labels_within, limit_violations
from steelyard.domains.theories.physics.invariance import flaws
from steelyard.errors import DataError

SMALL = Limits(
    groups=2,
    abelian=1,
    largest=2,
    dimension=2,
    states=2,
    charge=1,
    vevs=1,
    components=2,
    scalars=1,
    multiplets=2,
    generations=1,
    terms=2,
    vev=(2, 2),
    coupling=(-1, -1),
    mass=(2, 2),
)
"""Limits small enough to enumerate every theory of up to two dozen words."""


def is_valid_theory_text(text: str, limits: Limits) -> bool:
    """Whether the text is a theory within the limits.

    It must parse and serialise back identically, contain a fermion, and have only gauge-invariant, distinct terms.
    """
    try:
        theory = read(text)
    except DataError:
        return False
    if not theory.fermions or text != write(theory):
        return False
    return not flaws(theory) and not list(limit_violations(theory, limits))


def every_text(limits: Limits, words: int) -> set[str]:
    """Enumerate all theories of at most ``words`` words: combine the parts and keep the valid combinations."""
    found: set[str] = set()
    for factors in _gauge_groups(limits):
        for vevs, fields in _contents(factors, limits):
            head = " ".join(["GAUGE", *map(group_word, factors), "SSB", *vevs, "MULTIPLETS", *fields, "INTERACTIONS"])
            room = words - len(head.split())
            if room < 0 or not is_valid_theory_text(head, limits):
                continue
            terms = [
                term
                for term in products(head, room)
                if is_valid_theory_text(f"{head} {term} {_numbers(term)[0]}", limits)
            ]
            for listed in _lists(terms, room, limits.terms):
                for numbers in itertools.product(*(_numbers(term) for term in listed)):
                    parts = [f"{term} {number}" for term, number in zip(listed, numbers, strict=True)]
                    found.add(" ".join([head, *parts]))
    return found


def changed(text: str, words: Sequence[str], rng: random.Random) -> str:
    """Remove, replace or move one word."""
    parts = text.split()
    place = rng.randrange(len(parts))
    way = rng.randrange(3)
    if way == 0:
        del parts[place]
    elif way == 1:
        parts[place] = rng.choice(words)
    else:
        parts.insert(rng.randrange(len(parts)), parts.pop(place))
    return " ".join(parts)


def _gauge_groups(limits: Limits) -> Iterator[tuple[int, ...]]:
    for count in range(1, limits.groups + 1):
        sizes = range(1, limits.largest + 1)
        every = itertools.combinations_with_replacement(sizes, count)
        yield from (factors for factors in every if factors.count(1) <= limits.abelian)


def _contents(factors: tuple[int, ...], limits: Limits) -> Iterator[tuple[list[str], list[str]]]:
    """Yield scalars with an expectation value, then fermions and other scalars; limits are enforced later."""
    special = [n for n in factors if n > 1]
    labels = [[representation_word(n, label) for label in labels_within(n, limits.dimension)] for n in special]
    charges = [charge_word(sixths) for sixths in range(-limits.charge, limits.charge + 1)]
    every = [" ".join(one) for one in itertools.product(*labels, *(charges for _ in range(factors.count(1))))]
    values = [
        f"{acts} c{c} {number}"
        for acts in every
        for c in range(1, limits.components + 1)
        for number in _powers(limits.vev)
    ]
    fermions = [
        f"{hand} {acts} x{g}" for hand in ("left", "right") for acts in every for g in range(1, limits.generations + 1)
    ]
    for count in range(limits.multiplets + 1):
        for kinds in itertools.product("VFS", repeat=count):
            if list(kinds) != sorted(kinds, key=lambda kind: kind != "V"):
                continue
            tables = {"V": values, "F": fermions, "S": every}
            for pieces in itertools.product(*(tables[kind] for kind in kinds)):
                yield _named(kinds, pieces)


def _named(kinds: Sequence[str], pieces: Sequence[str]) -> tuple[list[str], list[str]]:
    vevs: list[str] = []
    fields: list[str] = []
    for place, (kind, piece) in enumerate(zip(kinds, pieces, strict=True)):
        letter = "F" if kind == "F" else "S"
        number = 1 + sum((other == "F") == (kind == "F") for other in kinds[:place])
        (vevs if kind == "V" else fields).append(f"{letter}{number} {piece}")
    return vevs, fields


def products(head: str, room: int) -> Iterator[str]:
    """Yield every kind of term with any fields in any order, as long as they and a coupling fit."""
    names = [word for word in head.split() if word[0] in "FS" and word[1:].isdigit()]
    legs = [name + star for name in names for star in ("", "*")]
    for kind, count in LEG_COUNT.items():
        if count + 2 > room:
            continue
        yield from (" ".join([kind, *product]) for product in itertools.product(legs, repeat=count))


def _lists(terms: Sequence[str], room: int, most: int) -> Iterator[tuple[str, ...]]:
    for count in range(min(most, len(terms)) + 1):
        for listed in itertools.permutations(terms, count):
            if sum(len(term.split()) + 1 for term in listed) <= room:
                yield listed


@cache
def _numbers(term: str) -> list[str]:
    return _powers(SMALL.power_of_ten(term.partition(" ")[0]))


def _powers(bounds: tuple[int, int]) -> list[str]:
    return [number_word(mantissa, power) for power in range(bounds[0], bounds[1] + 1) for mantissa in (1, 2, 5)]
