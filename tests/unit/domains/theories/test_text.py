"""Theories as text: written and read back, and refused with the word that is out of place."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from steelyard.domains.theories.grammar.prompts import standard_model_text
from steelyard.domains.theories.grammar.text import laid_out, read, rounded, write
from steelyard.domains.theories.grammar.vocabulary import Vocabulary, gauge_of, ordered_legs
from steelyard.domains.theories.model.known_models import models, standard_model
from steelyard.domains.theories.model.limits import Limits, excesses, labels_within, limits_from_options
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


def test_the_standard_model_as_a_file_holds_it() -> None:
    assert laid_out(standard_model_text()) == SM
    assert laid_out(SM) == SM


@pytest.mark.parametrize("name", models())
def test_what_is_written_is_read_back(name: str) -> None:
    text = write(rounded(models()[name]))
    again = read(text)
    assert write(again) == text
    assert read(laid_out(text)) == again
    assert sum(field.generations for field in again.fermions) == sum(f.generations for f in models()[name].fermions)


def test_factors_are_put_in_order_with_the_component_of_a_vev() -> None:
    swapped = theory("c:3 L:2", [scalar("H", "3 2")], vevs=[("H", 4, 200.0)])
    assert write(swapped) == "GAUGE SU(2) SU(3) SSB S1 2 3 c3 2e2 MULTIPLETS INTERACTIONS"


def test_of_a_product_and_its_conjugate_one_is_written() -> None:
    one = [Leg("S1", True), Leg("S2", False), Leg("S1", True)]
    other = [Leg("S2", True), Leg("S1", False), Leg("S1", False)]
    assert ordered_legs(one) == ordered_legs(other) == (Leg("S1"), Leg("S1"), Leg("S2", True))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("GAUGE U(1)", "GAUGE SU(2) U(1)"), "word 3 is 'U(1)'; gauge groups from the smallest on"),
        (("+1/2 c2", "+1/2 c3"), "word 10 is 'c3'; a component that the scalar has"),
        (("F2 right", "F3 right"), "word 19 is 'F3'; F2 should stand there"),
        (("left 2 1", "up 2 1"), "left or right"),
        (("-1/2 x3", "-1/7 x3"), "a charge"),
        (("F1 F2* S1* 1e-2", "F2* F1 S1* 1e-2"), "the legs of a yukawa term in their order"),
        (("F1 F2* S1* 1e-2", "F1 F2 S1* 1e-2"), "the legs of a yukawa term in their order"),
        (("1e0", "3e0"), "a number"),
        (("2e-2", ""), "is the end; a number"),
    ],
)
def test_what_is_out_of_place_is_named(change: tuple[str, str], said: str) -> None:
    with pytest.raises(DataError) as raised:
        read(SM.replace(*change))
    assert said in str(raised.value)


def test_what_cannot_be_said_is_refused() -> None:
    model = standard_model()
    with pytest.raises(DataError, match="246 cannot be said"):
        write(model)
    seventh = theory("X", [left("a", "1/7")])
    with pytest.raises(DataError, match="1/7; charges are said in sixths"):
        write(seventh)
    twice = replace(rounded(model), vevs=(Vev("H", 0, 1.0), Vev("H", 1, 1.0)))
    with pytest.raises(DataError, match="two expectation values"):
        write(twice)


def test_representations_go_up_to_the_adjoint() -> None:
    assert Vocabulary().labels[2].keys() == {"1", "2", "3", "4"}
    assert Vocabulary().labels[3].keys() == {"1", "3", "3*", "6", "6*", "8"}
    assert Vocabulary().labels[5].keys() == {"1", "5", "5*", "10", "10*", "15", "15*", "24"}
    assert labels_within(6, 20) == labels_within(6, 35)[:6]
    assert len(set(Vocabulary().words)) == len(Vocabulary().words) < 300


def test_gauge_groups_are_named_after_what_they_are() -> None:
    assert gauge_of((1, 1, 2, 3)).names == ("U1a", "U1b", "SU2", "SU3")
    assert Vocabulary().charges["-1/3"] == -2
    assert read(SM).fields[1].charges == (Fraction(-1, 2),)


def test_what_is_beyond_the_limits_is_named() -> None:
    model = read(SM)
    assert not list(excesses(model, Limits()))
    small = Limits(groups=2, charge=5, generations=2, terms=4, states=5, coupling=(-1, 0), largest=2)
    named = {excess.partition(":")[0] for excess in excesses(model, small)}
    assert named == {"groups", "charge", "generations", "terms", "states", "yukawa", "largest"}
    twice = replace(model, terms=(*model.terms, model.terms[0]))
    assert list(excesses(twice, Limits())) == ["a term twice"]


def test_limits_that_make_no_sense_are_refused() -> None:
    for options in ({"group": 2}, {"groups": 0}, {"charge": -1}, {"vev": [3, 2]}, {"abelian": 0, "largest": 1}):
        with pytest.raises(ConfigError, match="theories limits"):
            limits_from_options(options)
