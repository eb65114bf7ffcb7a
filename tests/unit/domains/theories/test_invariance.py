"""Gauge invariance of terms, and error messages for malformed theories."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from steelyard.domains.theories.model.known_models import STANDARD_MODEL_GROUP, standard_model
from steelyard.domains.theories.model.notation import left, right, scalar, theory
from steelyard.domains.theories.model.theory import Field, Leg, QuantumNumbers, Term, Vev, singlet, term_kind
from steelyard.domains.theories.physics.invariance import flaws, structures, term_structures

MODEL = standard_model(scalar("A", "1/2 2 1"), scalar("T", "0 3 1"), right("N", "0 1 1", 3))


def count(text: str) -> int:
    """Count the independent terms with these fields of ``MODEL``."""
    made = theory(STANDARD_MODEL_GROUP, (), terms=())
    legs = []
    for part in text.split():
        name = part.rstrip("†")
        field = MODEL.by_name[name]
        legs.append(Leg(name, field.kind == "right" if field.fermion else part != name))
    assert made.gauge == MODEL.gauge
    return term_structures(MODEL, Term(tuple(legs), 1.0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("H† H", 1),
        ("H H", 0),  # charged
        ("H† A", 1),
        ("H† H H† H", 1),
        ("H† H A† A", 2),
        ("H† A H† A", 1),
        ("T T", 1),
        ("T T T", 0),  # ε_ijk T_i T_j T_k of one triplet
        ("T T T T", 1),
        ("T† T T† T", 2),
        ("H† T H", 1),
        ("Q u H", 9),
        ("Q d H†", 9),
        ("Q d H", 0),
        ("L e H†", 9),
        ("L N H", 9),
        ("N N", 6),
        ("L L", 0),
        ("Q Q", 0),
    ],
)
def test_terms_of_the_standard_model(text: str, expected: int) -> None:
    assert count(text) == expected


def test_two_identical_doublets_need_two_generations() -> None:
    """ε_ij D_i D_j is antisymmetric: it vanishes for one doublet and has one coefficient for two."""
    doublet = QuantumNumbers(((1,),), ())
    gauge = theory("L:2", ()).gauge
    assert structures(gauge, [doublet] * 2, [0, 0], [1, 1]) == 0
    assert structures(gauge, [doublet] * 2, [0, 0], [2, 2]) == 1
    assert structures(gauge, [doublet] * 2, [0, 1], [1, 1]) == 1


def test_kinds_of_terms() -> None:
    def kind(*legs: Leg) -> str | None:
        return term_kind(MODEL, Term(legs, 1.0))

    up, down = Leg("H"), Leg("H", conjugate=True)
    assert [kind(down, up), kind(up, up, up), kind(down, up, down, up)] == ["phi2", "phi3", "phi4"]
    assert kind(Leg("Q"), Leg("u", conjugate=True), up) == "yukawa"
    assert kind(Leg("N", conjugate=True), Leg("N", conjugate=True)) == "mass"
    assert kind(Leg("Q"), Leg("u"), up) is None
    assert kind(Leg("Q"), up) is None
    assert kind(up) is None
    assert kind(Leg("Q"), Leg("u", conjugate=True), up, down) is None


def test_flaws_are_named() -> None:
    good = standard_model()
    assert flaws(good) == []
    bad = replace(
        good,
        fields=(*good.fields, Field("X", "scalar", singlet(good.gauge), (), 1), replace(good.fields[0], generations=2)),
        vevs=(Vev("L", 0, 1.0), Vev("H", 7, 1.0)),
        terms=(Term((Leg("H"), Leg("H")), 1.0), Term((Leg("Z"),), 1.0), Term((Leg("H"), Leg("Q")), 1.0)),
    )
    messages = "\n".join(flaws(bad))
    for part in (
        "two fields have the same name",
        "X: needs one representation",
        "H: 2 generations",
        "vev of L: no scalar",
        "component 7 must be from 0 to 1",
        "H H: the product is not gauge-invariant",
        "no field is named Z",
        "H Q: a term has",
    ):
        assert part in messages
    assert messages.count("\n") == 7


def test_a_label_of_another_group_is_a_flaw() -> None:
    wrong = Field("X", "left", ((1, 0), (0, 0)), (Fraction(0),))
    assert "X: (1, 0) is not a Dynkin label of SU(2)" in flaws(
        replace(standard_model(), fields=(wrong,), vevs=(), terms=())
    )


def test_right_handed_fields_are_conjugated_in_the_notation() -> None:
    made = theory("X", (left("a", "1"), right("b", "1")), terms=("a b: 3",))
    assert made.terms == (Term((Leg("a"), Leg("b", conjugate=True)), 3.0),)
