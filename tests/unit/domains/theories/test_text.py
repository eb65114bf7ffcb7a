"""Theory texts: round trips, and errors that name the invalid word."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from steelyard.domains.theories.grammar.starting_points import standard_model_text
from steelyard.domains.theories.grammar.text import read, rounded, with_line_breaks, write
from steelyard.domains.theories.grammar.vocabulary import Vocabulary, gauge_of, ordered_legs
from steelyard.domains.theories.model.known_models import models, standard_model
from steelyard.domains.theories.model.limits import Limits, labels_within, limit_violations, limits_from_options
from steelyard.domains.theories.model.notation import left, scalar, theory
from steelyard.domains.theories.model.theory import Leg, Vev
from steelyard.errors import ConfigError, DataError

SM = """GAUGE U(1) SU(2) SU(3)
SSB
S1 2 1 +1/2 c2 2e2
MULTIPLETS
F1 left 2 1 -1/2 x3
F2 right 1 1 -1 x3
F3 left 2 3 +1/6 x3
F4 right 1 3 +2/3 x3
F5 right 1 3 -1/3 x3
INTERACTIONS
phi2 S1 S1* 1e4
phi4 S1 S1 S1* S1* 1e-1
yukawa F1 F2* S1* 1e-2
yukawa F3 F4* S1 1e0
yukawa F3 F5* S1* 2e-2
"""


def test_the_standard_model_with_line_breaks() -> None:
    assert with_line_breaks(standard_model_text()) == SM
    assert with_line_breaks(SM) == SM


@pytest.mark.parametrize("name", models())
def test_known_models_round_trip(name: str) -> None:
    text = write(rounded(models()[name]))
    again = read(text)
    assert write(again) == text
    assert read(with_line_breaks(text)) == again
    assert sum(field.generations for field in again.fermions) == sum(f.generations for f in models()[name].fermions)


def test_sorting_factors_moves_the_component_of_a_vev() -> None:
    swapped = theory("c:3 L:2", [scalar("H", "3 2")], vevs=[("H", 4, 200.0)])
    assert write(swapped) == "GAUGE SU(2) SU(3) SSB S1 2 3 c3 2e2 MULTIPLETS INTERACTIONS"


def test_a_product_and_its_conjugate_are_written_alike() -> None:
    one = [Leg("S1", True), Leg("S2", False), Leg("S1", True)]
    other = [Leg("S2", True), Leg("S1", False), Leg("S1", False)]
    assert ordered_legs(one) == ordered_legs(other) == (Leg("S1"), Leg("S1"), Leg("S2", True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("GAUGE U(1)", "GAUGE SU(2) U(1)"), "word 3 is 'U(1)'; expected gauge groups in ascending order"),
        (("+1/2 c2", "+1/2 c3"), "word 10 is 'c3'; expected an existing component"),
        (("F2 right", "F3 right"), "word 19 is 'F3'; expected F2"),
        (("left 2 1", "up 2 1"), "left or right"),
        (("-1/2 x3", "-1/7 x3"), "a charge"),
        (("F1 F2* S1* 1e-2", "F2* F1 S1* 1e-2"), "the legs of a yukawa term in order"),
        (("F1 F2* S1* 1e-2", "F1 F2 S1* 1e-2"), "the legs of a yukawa term in order"),
        (("1e0", "3e0"), "a number"),
        (("2e-2", ""), "is missing; expected a number"),
    ],
)
def test_invalid_words_are_named(change: tuple[str, str], message: str) -> None:
    with pytest.raises(DataError) as raised:
        read(SM.replace(*change))
    assert message in str(raised.value)


def test_theories_without_a_text_are_rejected() -> None:
    model = standard_model()
    with pytest.raises(DataError, match="246 is not 1, 2 or 5 times a power of ten"):
        write(model)
    seventh = theory("X", [left("a", "1/7")])
    with pytest.raises(DataError, match=r"charge 1/7; .*multiples of 1/6"):
        write(seventh)
    twice = replace(rounded(model), vevs=(Vev("H", 0, 1.0), Vev("H", 1, 1.0)))
    with pytest.raises(DataError, match="H has two vacuum expectation values"):
        write(twice)


def test_representations_up_to_the_adjoint_are_allowed() -> None:
    assert Vocabulary().labels[2].keys() == {"1", "2", "3", "4"}
    assert Vocabulary().labels[3].keys() == {"1", "3", "3*", "6", "6*", "8"}
    assert Vocabulary().labels[5].keys() == {"1", "5", "5*", "10", "10*", "15", "15*", "24"}
    assert labels_within(6, 20) == labels_within(6, 35)[:6]
    assert len(set(Vocabulary().words)) == len(Vocabulary().words) < 300


def test_default_names_of_gauge_groups() -> None:
    assert gauge_of((1, 1, 2, 3)).names == ("U1a", "U1b", "SU2", "SU3")
    assert Vocabulary().charges["-1/3"] == -2
    assert read(SM).fields[1].charges == (Fraction(-1, 2),)


def test_exceeded_limits_are_named() -> None:
    model = read(SM)
    assert not list(limit_violations(model, Limits()))
    small = Limits(groups=2, charge=5, generations=2, terms=4, states=5, coupling=(-1, 0), largest=2)
    named = {excess.split()[0].rstrip(":") for excess in limit_violations(model, small)}
    assert named == {"groups", "charge", "generations", "terms", "states", "yukawa", "largest"}
    twice = replace(model, terms=(*model.terms, model.terms[0]))
    assert ["twice" in excess for excess in limit_violations(twice, Limits())] == [True]


def test_invalid_limits_are_rejected() -> None:
    for options in ({"group": 2}, {"groups": 0}, {"charge": -1}, {"vev": [3, 2]}, {"abelian": 0, "largest": 1}):
        with pytest.raises(ConfigError, match="theories limits"):
            limits_from_options(options)
