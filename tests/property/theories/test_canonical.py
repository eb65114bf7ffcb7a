"""A canonical form does not change when a theory is written differently, and does when it is another."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.theory_cases import random_field, random_theory
from steelyard.domains.theories.canonical import canonical, chiral_content
from steelyard.domains.theories.known import MODELS, models, standard_model
from steelyard.domains.theories.notation import left, right, scalar, theory
from steelyard.domains.theories.theory import Field, Gauge, Kind, Leg, Term, Theory, singlet

QUICK = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**32)


def renamed(given_: Theory, rng: random.Random) -> Theory:
    """Other names, another order, other values, and a chirality or scalar written the other way round."""
    names = {field.name: f"n{i}" for i, field in enumerate(given_.fields)}
    turned = {field.name for field in given_.fields if rng.random() < 0.5}
    fields = [
        _turned(field, names[field.name]) if field.name in turned else _named(field, names) for field in given_.fields
    ]
    rng.shuffle(fields)
    vevs = tuple(replace(vev, field=names[vev.field], value=rng.random() + 1) for vev in given_.vevs)
    terms = [
        Term(tuple(Leg(names[leg.field], leg.conjugate != (leg.field in turned)) for leg in term.legs), rng.random())
        for term in given_.terms
    ]
    rng.shuffle(terms)
    return Theory(given_.gauge, tuple(fields), vevs, tuple(terms))


def _named(field: Field, names: dict[str, str]) -> Field:
    return replace(field, name=names[field.name])


def _turned(field: Field, name: str) -> Field:
    other: dict[Kind, Kind] = {"left": "right", "right": "left", "scalar": "scalar"}
    acts = field.acts.conjugate
    return replace(field, name=name, kind=other[field.kind], labels=acts.labels, charges=acts.charges)


def rebased(given_: Theory, rng: random.Random) -> Theory:
    """Charges under another basis of the U(1)s."""
    count = len(given_.gauge.abelian)
    matrix = [[Fraction(rng.randint(-3, 3), rng.randint(1, 3)) for _ in range(count)] for _ in range(count)]
    for i in range(count):
        matrix[i][i] = Fraction(7 + i)  # the diagonal dominates: invertible
    fields = tuple(
        replace(
            f, charges=tuple(sum((a * q for a, q in zip(row, f.charges, strict=True)), Fraction(0)) for row in matrix)
        )
        for f in given_.fields
    )
    return replace(given_, fields=fields)


def reordered(given_: Theory, rng: random.Random) -> Theory:
    """Another order of the SU(n), some of them conjugated."""
    order = list(range(len(given_.gauge.special)))
    rng.shuffle(order)
    flip = [rng.random() < 0.5 for _ in order]
    fields = tuple(
        replace(f, labels=tuple(f.labels[a][::-1] if flip[a] else f.labels[a] for a in order)) for f in given_.fields
    )
    gauge = Gauge(given_.gauge.abelian, tuple(given_.gauge.special[a] for a in order))
    return replace(given_, gauge=gauge, fields=fields)


def with_singlets(given_: Theory, rng: random.Random) -> Theory:
    nothing = (Fraction(0),) * len(given_.gauge.abelian)
    kinds: tuple[Kind, ...] = ("left", "scalar")
    return given_.with_fields([Field("nothing", rng.choice(kinds), singlet(given_.gauge), nothing)])


def split(given_: Theory, rng: random.Random) -> Theory:
    """Generations as fields of their own."""
    fields = [replace(f, name=f"{f.name}.{i}", generations=1) for f in given_.fields for i in range(f.generations)]
    return Theory(given_.gauge, tuple(fields))


CHANGES: list[Callable[[Theory, random.Random], Theory]] = [renamed, rebased, reordered, with_singlets, split]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@QUICK
@given(seed=seeds)
def test_writing_it_differently_changes_nothing(change: Callable[[Theory, random.Random], Theory], seed: int) -> None:
    rng = random.Random(seed)
    one = random_theory(rng)
    for vector_like in (True, False):
        assert canonical(change(one, rng), vector_like=vector_like) == canonical(one, vector_like=vector_like)


@pytest.mark.parametrize("change", CHANGES[:-1], ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", MODELS)
def test_known_models_written_differently(change: Callable[[Theory, random.Random], Theory], name: str) -> None:
    """Terms and vacua included; a rotation of the gauge basis moves the component of a vev, which is forgotten."""
    one = models()[name]
    assert canonical(change(one, random.Random(name))) == canonical(one)


def test_known_models_differ() -> None:
    forms = {canonical(model) for model in models().values()}
    assert len(forms) == len(models()) - 1  # right-handed neutrinos of type I are singlets: the Standard Model
    assert canonical(models()["type I seesaw"]) == canonical(standard_model())


@QUICK
@given(seed=seeds)
def test_another_field_is_another_theory(seed: int) -> None:
    rng = random.Random(seed)
    one = random_theory(rng)
    more = random_field(rng, one.gauge, "more", ("left", "scalar"))
    same = canonical(one.with_fields([more])) == canonical(one)
    assert same is more.acts.is_neutral


def test_what_is_left_out_on_request() -> None:
    plain, higgsinos = standard_model(), models()["Standard Model with two Higgsinos"]
    assert canonical(plain) != canonical(higgsinos)
    assert canonical(plain, vector_like=False) == canonical(higgsinos, vector_like=False)
    doublets = models()["Standard Model with two Higgs doublets"]
    assert canonical(plain) != canonical(doublets)
    assert canonical(plain, scalars=False) == canonical(doublets, scalars=False)
    fewer = replace(plain, terms=plain.terms[:3])
    assert canonical(plain) != canonical(fewer)
    assert canonical(plain, terms=False) == canonical(fewer, terms=False)


def test_a_vacuum_counts() -> None:
    one = standard_model()
    assert canonical(one) != canonical(replace(one, vevs=()))


def test_charges_in_another_ratio_are_another_theory() -> None:
    def with_charge(charge: str) -> Theory:
        return theory("X", (left("a", "1"), right("b", charge), scalar("s", "2")))

    assert canonical(with_charge("3")) != canonical(with_charge("4"))
    assert canonical(with_charge("3")) != canonical(with_charge("-3"))


def test_real_fermions_are_vector_like() -> None:
    one = theory("X c:3", (left("g", "0 8"), left("q", "1 3"), right("u", "1 3", 3), left("z", "2 8")))
    assert sorted(chiral_content(one).values()) == [1, 2]
