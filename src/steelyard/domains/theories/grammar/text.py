"""Convert theories to text and back. A theory has exactly one text for each ordering of its entries.

Fields are renamed by kind and position (``F1``, ``S1``). The legs of a term are sorted by field, with each field before
its conjugate. The Hermitian conjugate of a term is implicit, so a scalar term is written as the smaller of the two.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from steelyard.domains.theories.grammar.reader import Reader
from steelyard.domains.theories.grammar.vocabulary import (
    BLOCKS,
    FERMION,
    GAUGE,
    INTERACTIONS,
    LEG_COUNT,
    MANTISSAS,
    MULTIPLETS,
    SCALAR,
    SIXTHS,
    SSB,
    charge_word,
    factors_of,
    gauge_of,
    group_word,
    leg_word,
    number_word,
    ordered_legs,
    representation_word,
)
from steelyard.domains.theories.groups.representation import cached
from steelyard.domains.theories.model.theory import Field, GaugeGroup, Leg, Term, Theory, Vev, term_kind
from steelyard.errors import DataError

_NAME = re.compile(r"[FS][1-9]\d*")


def write(theory: Theory) -> str:
    """Return the text of a theory.

    Raises ``DataError`` if the theory cannot be written as text: a charge is not a multiple of 1/6, a number is not 1,
    2 or 5 times a power of ten, or a scalar has two vacuum expectation values.
    """
    theory = renamed(in_order(theory))
    blocks = {GAUGE: [group_word(n) for n in factors_of(theory.gauge)]}
    vevs = {vev.field: vev for vev in theory.vevs}
    field_words = {field.name: _field_words(theory.gauge, field) for field in theory.fields}
    blocks[SSB] = [
        word for vev in theory.vevs for word in (*field_words[vev.field], f"c{vev.component + 1}", _number(vev.value))
    ]
    blocks[MULTIPLETS] = [word for field in theory.fields if field.name not in vevs for word in field_words[field.name]]
    blocks[INTERACTIONS] = [word for term in theory.terms for word in _term_words(theory, term)]
    return " ".join(word for block in BLOCKS for word in (block, *blocks[block]))


def read(text: str) -> Theory:
    """Parse a text. Raises a ``DataError`` that names the first invalid word."""
    return Reader(text.split()).theory()


def in_order(theory: Theory) -> Theory:
    """Return the theory with its SU(n) factors in ascending order, as in texts."""
    gauge = theory.gauge
    order = sorted(range(len(gauge.special)), key=lambda place: gauge.special[place].n)
    fields = tuple(replace(field, labels=tuple(field.labels[a] for a in order)) for field in theory.fields)
    vevs = tuple(replace(vev, component=_moved(theory, vev, order)) for vev in theory.vevs)
    special = tuple(gauge.special[a] for a in order)
    return replace(theory, gauge=replace(gauge, special=special), fields=fields, vevs=vevs)


def renamed(theory: Theory) -> Theory:
    """Return the theory with the names used in texts. Scalars with a vacuum expectation value come first."""
    with_vev = [vev.field for vev in theory.vevs]
    if len(set(with_vev)) < len(with_vev):
        twice = next(name for name in with_vev if with_vev.count(name) > 1)
        raise DataError(f"{twice} has two vacuum expectation values; the text format allows one per scalar")
    first = [theory.by_name[name] for name in with_vev]
    others = [field for field in theory.fields if field.name not in with_vev]
    names: dict[str, str] = {}
    for field in (*first, *others):
        letter = FERMION if field.fermion else SCALAR
        names[field.name] = f"{letter}{1 + sum(name[0] == letter for name in names.values())}"
    terms = tuple(
        replace(term, legs=tuple(Leg(names[leg.field], leg.conjugate) for leg in term.legs)) for term in theory.terms
    )
    named = Theory(
        gauge_of(factors_of(theory.gauge)),
        tuple(replace(field, name=names[field.name]) for field in (*first, *others)),
        tuple(replace(vev, field=names[vev.field]) for vev in theory.vevs),
    )
    return replace(named, terms=tuple(replace(term, legs=ordered_legs(term.legs)) for term in terms))


def rounded(theory: Theory) -> Theory:
    """Round absolute values to numbers in the vocabulary, and keep one vacuum expectation value per scalar."""
    vevs = {vev.field: vev for vev in reversed(theory.vevs)}
    return replace(
        theory,
        vevs=tuple(replace(vev, value=_nearest(vev.value)) for vev in theory.vevs if vevs[vev.field] is vev),
        terms=tuple(replace(term, parameter=_nearest(term.parameter)) for term in theory.terms),
    )


def with_line_breaks(text: str) -> str:
    """Return the text with one line per block, multiplet and term, as stored in files."""
    lines: list[str] = []
    for word in text.split():
        begins = (
            word in BLOCKS
            or word in LEG_COUNT
            or (not lines[-1].startswith(tuple(LEG_COUNT)) and _NAME.fullmatch(word))
        )
        if begins or not lines:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return "".join(f"{line}\n" for line in lines)


def _field_words(gauge: GaugeGroup, field: Field) -> list[str]:
    sixths = [charge * SIXTHS for charge in field.charges]
    if odd := [charge for charge in sixths if charge.denominator > 1]:
        raise DataError(
            f"{field.name} has charge {odd[0] / SIXTHS}; in the text format, charges must be multiples of 1/{SIXTHS}"
        )
    labels = zip(gauge.special, field.labels, strict=True)
    words = [representation_word(factor.n, label) for factor, label in labels]
    words += [charge_word(int(charge)) for charge in sixths]
    return [field.name, field.kind, *words, f"x{field.generations}"] if field.fermion else [field.name, *words]


def _term_words(theory: Theory, term: Term) -> list[str]:
    kind = term_kind(theory, term)
    if kind is None:
        raise DataError(
            f"a product of {len(term.legs)} legs is not a supported term; use two to four scalars, or two left-handed "
            "spinors and at most one scalar"
        )
    return [kind, *(leg_word(*leg) for leg in term.legs), _number(term.parameter)]


def _number(value: float) -> str:
    power = math.floor(math.log10(value) + 1e-9) if value > 0 else 0
    mantissa = value / 10.0**power
    if round(mantissa) not in MANTISSAS or abs(mantissa - round(mantissa)) > 1e-9:
        raise DataError(f"{value:g} is not 1, 2 or 5 times a power of ten; round the theory with rounded() first")
    return number_word(round(mantissa), power)


def _nearest(value: float) -> float:
    """Round to 1, 2 or 5 times a power of ten, on a logarithmic scale."""
    power = math.floor(math.log10(abs(value)))
    candidates = [float(number_word(mantissa, p)) for p in (power, power + 1) for mantissa in MANTISSAS]
    return min(candidates, key=lambda candidate: abs(math.log(candidate / abs(value))))


def _moved(theory: Theory, vev: Vev, order: Sequence[int]) -> int:
    """Return the component index of a vacuum expectation value after reordering the factors."""
    labels = zip(theory.gauge.special, theory.by_name[vev.field].labels, strict=True)
    sizes = [cached(factor.n, label).dimension for factor, label in labels]
    if not sizes:
        return vev.component
    places = np.unravel_index(vev.component, sizes)
    return int(np.ravel_multi_index([places[a] for a in order], [sizes[a] for a in order]))
