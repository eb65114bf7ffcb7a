"""Ground truth for gauge theories: tables of indices and anomalies, classified models, and random theories."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from steelyard.domains.theories.groups.representation import Label, cached
from steelyard.domains.theories.model.known_models import FERMIONS, STANDARD_MODEL_GROUP, models, standard_model
from steelyard.domains.theories.model.notation import label_of, left, right, theory
from steelyard.domains.theories.model.theory import (
    Field,
    GaugeGroup,
    Kind,
    Leg,
    SpecialUnitary,
    Term,
    Theory,
    Vev,
    singlet,
    term_kind,
)
from steelyard.domains.theories.physics.invariance import term_structures
from steelyard.domains.theories.physics.vacuum import states

TABLE: dict[int, str] = {
    2: "2: 1/2 0 · 3: 2 0 · 4: 5 0 · 5: 10 0 · 6: 35/2 0",
    3: "3: 1/2 1 · 6: 5/2 7 · 8: 3 0 · 10: 15/2 27 · 15: 10 14 · 15': 35/2 77 · 27: 27 0",
    4: "4: 1/2 1 · 6: 1 0 · 10: 3 8 · 15: 4 0",
    5: "5: 1/2 1 · 10: 3/2 1 · 15: 7/2 9 · 24: 5 0",
    6: "6: 1/2 1 · 15: 2 2 · 20: 3 0 · 21: 4 10",
}
"""Index and cubic anomaly of representations of SU(n)."""
SPECIAL = {2: ("1", "2", "3", "4"), 3: ("1", "3", "-3", "6", "-6", "8"), 4: ("1", "4", "-4", "6", "10", "15")}
GENERATIONS = (1, 2, 3)


@dataclass(frozen=True)
class Case:
    """A theory and the anomaly conditions it violates; empty for an anomaly-free theory."""

    name: str
    theory: Theory
    broken: dict[str, Fraction] = field(default_factory=dict[str, Fraction])


def table() -> list[tuple[int, Label, Fraction, Fraction]]:
    """Return n, label, T and A of every table entry."""
    rows: list[tuple[int, Label, Fraction, Fraction]] = []
    for n, text in TABLE.items():
        for entry in text.split("·"):
            name, _, numbers = entry.partition(":")
            index, anomaly = map(Fraction, numbers.split())
            rows.append((n, label_of(n, name), index, anomaly))
    return rows


def cases() -> list[Case]:
    """Return the known models, which are anomaly-free, and some theories with anomalies."""
    return [*(Case(name, model) for name, model in models().items()), *_anomalous()]


def _anomalous() -> list[Case]:
    charges = {"L": "-1", "e": "-1", "Q": "1/3", "u": "1/3", "d": "1/3"}
    b_minus_l = []
    for sketch in FERMIONS:
        hypercharge, rest = sketch.acts.split(maxsplit=1)
        b_minus_l.append(replace(sketch, acts=f"{hypercharge} {charges[sketch.name]} {rest}"))
    one = Fraction(1)
    return [
        Case("B - L without antineutrinos", theory("Y B L:2 c:3", b_minus_l), {"gravity²·B": -3 * one, "B³": -3 * one}),
        Case("SU(5), 10 alone", theory("G:5", (left("T", "10"),)), {"G³": one}),
        Case("one doublet", theory("L:2", (left("D", "2"),)), {"Witten L": one}),
        Case(
            "Standard Model with one Higgsino",
            standard_model(left("h", "1/2 2 1")),
            {"L²·Y": one / 4, "Witten L": one, "gravity²·Y": one, "Y³": one / 4},
        ),
        Case(
            "Standard Model with u of charge 1/3",
            theory(STANDARD_MODEL_GROUP, [replace(s, acts="1/3 1 3") if s.name == "u" else s for s in FERMIONS]),
            {
                "c²·Y": 3 * one / 2 * Fraction(1, 3),
                "gravity²·Y": 3 * one,
                "Y³": 9 * (Fraction(8, 27) - Fraction(1, 27)),
            },
        ),
        Case("one triplet of SU(3)", theory("c:3", (right("q", "3"),)), {"c³": -one}),
        Case("one charge", theory("X", (left("a", "2", 2),)), {"gravity²·X": 4 * one, "X³": 16 * one}),
        Case("two charges", theory("X Z", (left("a", "1 1"), left("b", "-1 1"), left("c", "0 -2"))), _two_charges()),
    ]


def _two_charges() -> dict[str, Fraction]:
    """Σ x²z = 2 and Σ z³ = -6 for (1, 1), (-1, 1), (0, -2); all other sums vanish."""
    return {"X²·Z": Fraction(2), "Z³": Fraction(-6)}


def random_gauge(rng: random.Random) -> GaugeGroup:
    abelian = tuple(f"U{i}" for i in range(rng.randint(0, 2)))
    special = tuple(
        SpecialUnitary(f"S{i}", rng.choice((2, 2, 3, 3, 4))) for i in range(rng.randint(0 if abelian else 1, 2))
    )
    return GaugeGroup(abelian, special)


def random_field(rng: random.Random, gauge: GaugeGroup, name: str, kinds: Sequence[str] = ("left", "right")) -> Field:
    """Return a field whose charges are multiples of 1/6, with one generation if it is a scalar."""
    labels = tuple(label_of(factor.n, rng.choice(SPECIAL[factor.n])) for factor in gauge.special)
    charges = tuple(Fraction(rng.randint(-12, 12), 6) for _ in gauge.abelian)
    kind = rng.choice(kinds)
    generations = 1 if kind == "scalar" else rng.choice(GENERATIONS)
    return Field(name, kind, labels, charges, generations)  # pyright: ignore[reportArgumentType]


def random_theory(rng: random.Random) -> Theory:
    """Return a theory with random fields; some anomaly conditions, occasionally all of them, hold by chance."""
    gauge = random_gauge(rng)
    fields = [random_field(rng, gauge, f"f{i}") for i in range(rng.randint(0, 6))]
    if rng.random() < 0.5:
        fields += vector_like_pair(rng, gauge)
    scalars = [random_field(rng, gauge, f"s{i}", ("scalar",)) for i in range(rng.randint(0, 3))]
    return Theory(gauge, (*fields, *scalars))


def with_terms(given: Theory, rng: random.Random, tries: int = 60) -> Theory:
    """Add random terms that the fields allow, and occasionally a vacuum expectation value."""
    names = [own.name for own in given.fields]
    terms: dict[tuple[Leg, ...], Term] = {}
    for _ in range(tries if names else 0):
        legs: list[Leg] = []
        for name in rng.choices(names, k=rng.randint(2, 4)):
            kind = given.by_name[name].kind
            legs.append(Leg(name, rng.random() < 0.5 if kind == "scalar" else kind == "right"))
        term = Term(tuple(sorted(legs)), rng.choice((1.0, 2.0, 5.0)) * 10.0 ** rng.randint(-6, 4))
        if term_kind(given, term) and term_structures(given, term):
            mirrored = tuple(sorted(Leg(leg.field, not leg.conjugate) for leg in legs))
            terms.setdefault(min(term.legs, mirrored) if term_kind(given, Term(mirrored, 1.0)) else term.legs, term)
    vevs = [
        Vev(own.name, rng.randrange(len(states(given.gauge, own.labels))), 10.0 ** rng.randint(1, 6))
        for own in given.scalars
        if rng.random() < 0.7
    ]
    return replace(given, vevs=tuple(vevs), terms=tuple(terms.values()))


def vector_like_pair(rng: random.Random, gauge: GaugeGroup) -> list[Field]:
    """Return a field and one with the conjugate left-handed content, by conjugation or by chirality."""
    one = random_field(rng, gauge, "v")
    if rng.random() < 0.5:
        return [one, replace(one, name="w", kind="left" if one.kind == "right" else "right")]
    conjugate = one.acts.conjugate
    return [one, replace(one, name="w", labels=conjugate.labels, charges=conjugate.charges)]


def conjugated(given: Theory) -> Theory:
    """Replace every field with its conjugate."""
    return Theory(given.gauge, tuple(_conjugated(own) for own in given.fields))


def _conjugated(own: Field) -> Field:
    acts = own.acts.conjugate
    return replace(own, labels=acts.labels, charges=acts.charges)


def scaled(given: Theory, factors: Sequence[Fraction]) -> Theory:
    """Multiply the charges of every U(1) by a factor."""
    return Theory(
        given.gauge,
        tuple(
            replace(own, charges=tuple(q * factor for q, factor in zip(own.charges, factors, strict=True)))
            for own in given.fields
        ),
    )


def states_of(given: Theory) -> int:
    """Count the left-handed states of a theory's fermions."""
    total = 0
    for own in given.fermions:
        size = own.generations
        for factor, label in zip(given.gauge.special, own.labels, strict=True):
            size *= cached(factor.n, label).dimension
        total += size
    return total


def renamed(given: Theory, rng: random.Random) -> Theory:
    """Change names, order and values, and write some chiralities and scalars as their conjugates."""
    names = {field.name: f"n{i}" for i, field in enumerate(given.fields)}
    turned = {field.name for field in given.fields if rng.random() < 0.5}
    fields = [
        _turned(field, names[field.name]) if field.name in turned else _named(field, names) for field in given.fields
    ]
    rng.shuffle(fields)
    vevs = tuple(replace(vev, field=names[vev.field], value=rng.random() + 1) for vev in given.vevs)
    terms = [
        Term(tuple(Leg(names[leg.field], leg.conjugate != (leg.field in turned)) for leg in term.legs), rng.random())
        for term in given.terms
    ]
    rng.shuffle(terms)
    return Theory(given.gauge, tuple(fields), vevs, tuple(terms))


def _named(field: Field, names: dict[str, str]) -> Field:
    return replace(field, name=names[field.name])


def _turned(field: Field, name: str) -> Field:
    other: dict[Kind, Kind] = {"left": "right", "right": "left", "scalar": "scalar"}
    acts = field.acts.conjugate
    return replace(field, name=name, kind=other[field.kind], labels=acts.labels, charges=acts.charges)


def rebased(given: Theory, rng: random.Random) -> Theory:
    """Express the charges in another basis of the U(1)s."""
    count = len(given.gauge.abelian)
    matrix = [[Fraction(rng.randint(-3, 3), rng.randint(1, 3)) for _ in range(count)] for _ in range(count)]
    for i in range(count):
        matrix[i][i] = Fraction(7 + i)  # diagonally dominant, so invertible
    fields = tuple(
        replace(
            f, charges=tuple(sum((a * q for a, q in zip(row, f.charges, strict=True)), Fraction(0)) for row in matrix)
        )
        for f in given.fields
    )
    return replace(given, fields=fields)


def reordered(given: Theory, rng: random.Random) -> Theory:
    """Reorder the SU(n) factors and conjugate some of them."""
    order = list(range(len(given.gauge.special)))
    rng.shuffle(order)
    flip = [rng.random() < 0.5 for _ in order]
    fields = tuple(
        replace(f, labels=tuple(f.labels[a][::-1] if flip[a] else f.labels[a] for a in order)) for f in given.fields
    )
    gauge = GaugeGroup(given.gauge.abelian, tuple(given.gauge.special[a] for a in order))
    return replace(given, gauge=gauge, fields=fields)


def with_singlets(given: Theory, rng: random.Random) -> Theory:
    nothing = (Fraction(0),) * len(given.gauge.abelian)
    kinds: tuple[Kind, ...] = ("left", "scalar")
    return given.with_fields([Field("nothing", rng.choice(kinds), singlet(given.gauge), nothing)])


def split(given: Theory, _: random.Random) -> Theory:
    """Turn generations into separate fields."""
    fields = [replace(f, name=f"{f.name}.{i}", generations=1) for f in given.fields for i in range(f.generations)]
    return Theory(given.gauge, tuple(fields))
