"""The canonical form is the same for equivalent theories and differs for others."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.theories.theory_cases import (
    random_field,
    random_theory,
    rebased,
    renamed,
    reordered,
    split,
    with_singlets,
)
from steelyard.domains.theories.comparison.canonical_form import canonical, chiral_content
from steelyard.domains.theories.model.known_models import MODELS, models, standard_model
from steelyard.domains.theories.model.notation import left, right, scalar, theory
from steelyard.domains.theories.model.theory import Theory

QUICK = settings(max_examples=60)
seeds = st.integers(0, 2**32)


CHANGES: list[Callable[[Theory, random.Random], Theory]] = [renamed, rebased, reordered, with_singlets, split]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@QUICK
@given(seed=seeds)
def test_equivalent_theories_have_the_same_form(change: Callable[[Theory, random.Random], Theory], seed: int) -> None:
    rng = random.Random(seed)
    one = random_theory(rng)
    for vector_like in (True, False):
        assert canonical(change(one, rng), vector_like=vector_like) == canonical(one, vector_like=vector_like)


@pytest.mark.parametrize("change", CHANGES[:-1], ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", MODELS)
def test_known_models_written_differently(change: Callable[[Theory, random.Random], Theory], name: str) -> None:
    """The theories include terms and vacua. The component of a vev, which depends on the gauge basis, is ignored."""
    one = models()[name]
    assert canonical(change(one, random.Random(name))) == canonical(one)


def test_known_models_differ() -> None:
    forms = {canonical(model) for model in models().values()}
    assert len(forms) == len(models()) - 1  # the type-I seesaw adds only singlets, so it equals the Standard Model
    assert canonical(models()["type I seesaw"]) == canonical(standard_model())


@QUICK
@given(seed=seeds)
def test_an_extra_field_changes_the_form(seed: int) -> None:
    rng = random.Random(seed)
    one = random_theory(rng)
    more = random_field(rng, one.gauge, "more", ("left", "scalar"))
    same = canonical(one.with_fields([more])) == canonical(one)
    assert same is more.acts.is_neutral


def test_optional_parts_can_be_ignored() -> None:
    plain, higgsinos = standard_model(), models()["Standard Model with two Higgsinos"]
    assert canonical(plain) != canonical(higgsinos)
    assert canonical(plain, vector_like=False) == canonical(higgsinos, vector_like=False)
    doublets = models()["Standard Model with two Higgs doublets"]
    assert canonical(plain) != canonical(doublets)
    assert canonical(plain, scalars=False) == canonical(doublets, scalars=False)
    fewer = replace(plain, terms=plain.terms[:3])
    assert canonical(plain) != canonical(fewer)
    assert canonical(plain, terms=False) == canonical(fewer, terms=False)


def test_the_vacuum_is_part_of_the_form() -> None:
    one = standard_model()
    assert canonical(one) != canonical(replace(one, vevs=()))


def test_other_charge_ratios_change_the_form() -> None:
    def with_charge(charge: str) -> Theory:
        return theory("X", (left("a", "1"), right("b", charge), scalar("s", "2")))

    assert canonical(with_charge("3")) != canonical(with_charge("4"))
    assert canonical(with_charge("3")) != canonical(with_charge("-3"))


def test_real_fermions_are_vector_like() -> None:
    one = theory("X c:3", (left("g", "0 8"), left("q", "1 3"), right("u", "1 3", 3), left("z", "2 8")))
    assert sorted(chiral_content(one).values()) == [1, 2]


def test_an_odd_pseudoreal_fermion_is_chiral() -> None:
    """Two doublets have a mass term, but a third does not; a triplet always has one."""
    made = theory("L:2", (left("d", "2", 3), left("t", "3")))
    assert {acts.labels: count for acts, count in chiral_content(made).items()} == {((1,),): 1}
