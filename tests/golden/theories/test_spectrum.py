"""Masses, charges and multiplicities compared with formulas."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from steelyard.domains.theories.grammar.text import read
from steelyard.domains.theories.model.known_models import FERMIONS, MODELS, VACUUM, models, standard_model
from steelyard.domains.theories.model.notation import left, right, scalar, theory
from steelyard.domains.theories.model.theory import Theory
from steelyard.domains.theories.physics.breaking import broken_forces, electric_charges, unbroken
from steelyard.domains.theories.physics.mass_matrices import component_count, scalar_matrix
from steelyard.domains.theories.physics.mass_spectrum import State, light_exotics, spectrum

THIRD = Fraction(1, 3)
ONE, TWO = (("S", 0, 1e3),), (("T", 0, 1e3),)
PHOTON = ("electromagnetism",)


def rows(given: Theory) -> dict[tuple[str, ...], State]:
    return {state.fields: state for state in spectrum(given).states}


def test_charges_of_the_standard_model() -> None:
    assert electric_charges(standard_model()) == {
        "H": (1, 0),
        "L": (0, -1),
        "e": (-1,),
        "Q": (2 * THIRD,) * 3 + (-THIRD,) * 3,
        "u": (2 * THIRD,) * 3,
        "d": (-THIRD,) * 3,
    }


def test_masses_of_the_standard_model() -> None:
    """m_f = y v / √2 and m_h² = 2 λ v²; neutrinos are massless, and there are no Goldstone modes."""
    found = spectrum(standard_model())
    assert [(state.fields, state.nature, state.count, state.colour) for state in found.states] == [
        (("L",), "weyl", 3, 1),
        (("L", "e"), "dirac", 3, 1),
        (("Q", "d"), "dirac", 3, 3),
        (("H",), "real", 1, 1),
        (("Q", "u"), "dirac", 3, 3),
    ]
    v = 246.0
    masses = [state.mass for state in found.states]
    assert masses == pytest.approx([0, 0.01 * v / sqrt(2), 0.02 * v / sqrt(2), sqrt(0.2) * v, v / sqrt(2)])
    assert not any(state.exotic for state in found.states)
    assert found.tadpole == 0


def test_seesaw() -> None:
    """m² = (M ± √(M² + 4 m_D²))² / 4."""
    given = standard_model(right("N", "0 1 1", 3), terms=("L N H: 0.1", "N N: 1000"))
    dirac = 0.1 * 246 / sqrt(2)
    light = [state for state in spectrum(given).states if state.kind == "fermion" and state.charge == 0]
    root = sqrt(1000**2 + 4 * dirac**2)
    assert [state.mass for state in light if state.colour == 1] == pytest.approx([(root - 1000) / 2, (root + 1000) / 2])
    assert {state.nature for state in light} == {"majorana"}


@pytest.mark.parametrize("heavy", ["1e6", "1e10", "1e14", "1e16"])
@pytest.mark.parametrize("yukawa", ["1", "1e-6"])
def test_the_neutrino_mass_of_a_type_one_seesaw(heavy: str, yukawa: str) -> None:
    """Three Majorana neutrinos, mostly L, have m = y² v² / (2 M); corrections of (m_D / M)² are below 10⁻⁷."""
    given = standard_model(right("N", "0 1 1", 3), terms=(f"L N H: {yukawa}", f"N N: {heavy}"))
    neutrinos = [s for s in spectrum(given).states if s.kind == "fermion" and s.charge == 0 and s.colour == 1]
    light = (float(yukawa) * 246) ** 2 / (2 * float(heavy))
    assert [(s.mass, s.count, s.nature) for s in neutrinos] == [
        (pytest.approx(light, rel=1e-7), 3, "majorana"),
        (pytest.approx(float(heavy), rel=1e-7), 3, "majorana"),
    ]
    assert [s.fields[0] for s in neutrinos] == ["L", "N"]


def test_the_known_type_one_seesaw() -> None:
    """y = 1, M = 10¹⁴ GeV: m = 246² / (2·10¹⁴) GeV = 0.30258 eV."""
    (light,) = [s for s in spectrum(models()["type I seesaw"]).states if s.fields == ("L",)]
    assert (light.mass, light.count) == (pytest.approx(3.0258e-10, rel=1e-12), 3)


def test_an_inverse_seesaw() -> None:
    """((0, m, 0), (m, 0, M), (0, M, μ)) has the smallest singular value μ m² / (m² + M²), to first order in μ."""
    fields = right("N", "0 1 1", 3), left("S", "0 1 1", 3)
    given = standard_model(*fields, terms=("L N H: 0.1", "N S: 1e10", "S S: 1e-3"))
    dirac = 0.1 * 246 / sqrt(2)
    neutral = [s for s in spectrum(given).states if s.kind == "fermion" and s.charge == 0 and s.colour == 1]
    assert neutral[0].mass == pytest.approx(1e-3 * dirac**2 / 1e20, rel=1e-9)
    assert sum(s.count for s in neutral) == 9


def test_a_lepton_without_a_mass_term_stays_massless_next_to_a_heavy_one() -> None:
    """The terms are M (F7 + F2) F6 and y (F7 + F2) F1, so F7 - F2 has no mass term."""
    text = HEAVY_LEPTON.replace("F1 F2* S1* 1e-2", "F1 F2* S1* 5e-2").format(mass="1e16")
    leptons = [s for s in spectrum(read(text)).states if s.kind == "fermion" and abs(s.charge) == 1 and s.colour == 1]
    assert min(s.mass for s in leptons) == 0.0


def test_two_higgs_doublets() -> None:
    """Both contractions of A†A H†H have the coupling λ; one makes the neutral states heavier than the charged one."""
    states = [
        state for state in spectrum(models()["Standard Model with two Higgs doublets"]).states if "A" in state.fields
    ]
    charged, neutral = states
    assert (charged.charge, charged.nature, charged.count, charged.exotic) == (1, "complex", 1, True)
    assert (neutral.charge, neutral.nature, neutral.count, neutral.exotic) == (0, "real", 2, False)
    assert neutral.mass > charged.mass > 1000


def test_type_two_seesaw() -> None:
    """m_D² = μ v² / (√2 v_D), up to corrections of order v_D."""
    found = spectrum(models()["type II seesaw"])
    doubly = next(state for state in found.states if state.charge == 2)
    assert doubly.mass == pytest.approx(sqrt(10 * 246**2 / sqrt(2) / 1.0), rel=1e-3)
    assert found.tadpole < 1e-6


def test_a_light_exotic_is_found() -> None:
    charged = standard_model(left("x", "1 1 1"), left("y", "-1 1 1"), terms=("x y: 50",))
    (state,) = light_exotics(charged)
    assert (state.mass, abs(state.charge), state.count, state.fields) == (50, 1, 1, ("x", "y"))
    assert light_exotics(charged, below=40) == ()
    massless = light_exotics(standard_model(left("x", "5/6 1 1"), left("y", "-5/6 1 1")))
    assert [(state.mass, abs(state.charge)) for state in massless] == [(0.0, Fraction(5, 6))]


def test_a_fourth_generation_is_exotic_and_three_are_not() -> None:
    given = standard_model()
    four = replace(given, fields=tuple(replace(f, generations=4) if f.fermion else f for f in given.fields))
    exotic = [state for state in spectrum(four).states if state.exotic]
    assert [(state.charge, state.count) for state in exotic] == [(-1, 1), (-THIRD, 1), (2 * THIRD, 1)]


@pytest.mark.parametrize("given", [theory("L:2 c:3", (left("q", "2 8"),)), theory("X L:2 c:3", (left("q", "0 2 8"),))])
def test_colour_is_exotic_with_and_without_an_electric_charge(given: Theory) -> None:
    (seen,) = light_exotics(given)
    assert (seen.colour, seen.charge) == (8, 0)


def test_without_an_electric_charge_a_triplet_cannot_be_a_quark() -> None:
    given = theory("c:3", (left("q", "3"), right("p", "3")), terms=("q p: 10",))
    assert [(state.exotic, state.mass) for state in spectrum(given).states] == [(True, 10.0)]


UNSEEN = (scalar("k", "1 1 1"), scalar("g", "2/3 1 3"))
"""Massless scalars, some charged and some coloured."""


@pytest.mark.parametrize(
    ("given", "broken"),
    [
        (standard_model(*UNSEEN), ()),
        (standard_model(*UNSEEN, scalar("S", "1 1 1"), vevs=(("S", 0, 1e3),)), ("electromagnetism",)),
        (standard_model(scalar("T", "-1/3 1 3"), vevs=(("T", 0, 1e3),)), ("colour",)),
        (
            standard_model(scalar("S", "1 1 1"), scalar("T", "1/6 1 3"), vevs=(("S", 0, 1e3), ("T", 0, 1e3))),
            ("electromagnetism", "colour"),
        ),
        (theory("Y L:2 c:3", FERMIONS), ()),
        (theory("c:3 L:2 Y", (scalar("H", "1 2 1/2"),), vevs=[("H", 0, 246.0)]), ()),
        # a second unbroken U(1) is not a photon unless it mixes with an SU(2)
        (theory("Y X L:2 c:3", (scalar("H", "1/2 0 2 1"), scalar("S", "1 0 1 1")), vevs=VACUUM + ONE), PHOTON),
        (theory("Y X L:2 c:3", (scalar("H", "1/2 1/2 2 1"), scalar("S", "1 0 1 1")), vevs=VACUUM + ONE), ()),
        # an SU(3) inside a larger factor is not colour
        (theory("Y L:2 c:3 g:4", (scalar("S", "0 1 3 1"), scalar("T", "0 1 1 4")), vevs=ONE + TWO), ("colour",)),
        # other gauge groups have neither electromagnetism nor colour
        (theory("X", (scalar("S", "1"),), vevs=ONE), ()),
        (theory("L:2 c:3", (scalar("S", "1 3"),), vevs=ONE), ()),
        (theory("Y c:3", (scalar("S", "1 3"),), vevs=ONE), ()),
        (models()["SU(5)"], ()),
        (theory("G:5", (left("F", "-5"), left("T", "10"))), ()),
    ],
)
def test_broken_electromagnetism_and_colour(given: Theory, broken: tuple[str, ...]) -> None:
    assert broken_forces(given) == broken


@pytest.mark.parametrize("name", [name for name in MODELS if "SU" not in name])
def test_no_known_model_breaks_electromagnetism_or_colour(name: str) -> None:
    assert broken_forces(models()[name]) == ()


def test_a_hidden_charge_is_not_the_electric_one() -> None:
    """A triplet breaks SU(2)_h to a hidden charge, wherever SU(2)_h is among the factors."""
    fields = (scalar("H", "1/2 2 1 1"), scalar("T", "0 1 3 1"), left("e", "-1 1 1 1"))
    given = theory("Y L:2 h:2 c:3", fields, vevs=[("H", 1, 246.0), ("T", 1, 1e3)])
    turned = replace(
        given,
        gauge=replace(given.gauge, special=tuple(given.gauge.special[a] for a in (1, 0, 2))),
        fields=tuple(replace(f, labels=tuple(f.labels[a] for a in (1, 0, 2))) for f in given.fields),
    )
    for one in (given, turned):
        assert electric_charges(one)["e"] == (-1,)
        assert set(electric_charges(one)["H"]) == {1, 0}
        assert len(unbroken(one).charges) == 2


def test_neutral_and_hidden_states_are_not_exotic() -> None:
    given = theory(
        "Y L:2 c:3 h:2",
        (scalar("H", "1/2 2 1 1"), left("n", "0 1 1 2", 2), left("q", "1/6 2 3 1")),
        vevs=[("H", 1, 246.0)],
    )
    found = rows(given)
    assert not found["n",].exotic
    assert found["n",].dimension == 2
    assert found["n",].colour == 1


def test_charges_of_unified_models() -> None:
    assert electric_charges(models()["left-right symmetric"])["q"] == (2 * THIRD,) * 3 + (-THIRD,) * 3
    assert electric_charges(models()["Pati-Salam"])["F"] == (*(2 * THIRD,) * 3, 0, *(-THIRD,) * 3, -1)
    five = electric_charges(models()["SU(5)"])["F"]
    assert sorted(five) == [-1, 0, THIRD, THIRD, THIRD]
    assert len(unbroken(models()["SU(5)"]).charges) == 1


def test_bottom_and_tau_are_equal_in_su5() -> None:
    masses = [(state.mass, state.charge) for state in spectrum(models()["SU(5)"]).states if state.fields == ("F", "T")]
    assert masses == [(pytest.approx(0.02 * 246 / sqrt(2)), -1), (pytest.approx(0.02 * 246 / sqrt(2)), -THIRD)]


def test_an_unbroken_second_charge_is_kept() -> None:
    left_over = unbroken(models()["U(1) of Lμ - Lτ"])
    assert len(left_over.charges) == 2
    assert left_over.charges[0].abelian == (1, 0)
    assert left_over.charges[1].abelian == (0, 1)
    assert len(unbroken(models()["U(1) of B - L"]).charges) == 1


@pytest.mark.parametrize("name", MODELS)
def test_no_states_are_lost(name: str) -> None:
    """The number of fermion states is conserved; scalars lose one state per broken generator."""
    given = models()[name]
    found = spectrum(given)
    weyl = {"dirac": 2, "majorana": 1, "weyl": 1}
    fermions = sum(s.count * s.dimension * weyl[s.nature] for s in found.states if s.kind == "fermion")
    real = {"complex": 2, "real": 1}
    scalars = sum(s.count * s.dimension * real[s.nature] for s in found.states if s.kind == "scalar")
    size = {field.name: component_count(given, field) for field in given.fields}
    assert fermions == sum(size[f.name] * f.generations for f in given.fermions)
    generators = len(given.gauge.abelian) + sum(factor.n**2 - 1 for factor in given.gauge.special)
    kept = len(found.unbroken.charges) + sum(len(block.indices) ** 2 - 1 for block in found.unbroken.blocks)
    assert scalars == 2 * sum(size[f.name] for f in given.scalars) - (generators - kept)


def test_colour_written_as_antitriplets_changes_nothing() -> None:
    given = standard_model()
    turned = replace(given, fields=tuple(replace(f, labels=(f.labels[0], f.labels[1][::-1])) for f in given.fields))
    assert [(s.mass, s.count, s.exotic) for s in spectrum(turned).states] == [
        (s.mass, s.count, s.exotic) for s in spectrum(given).states
    ]


def test_goldstone_modes_of_comparable_vacua() -> None:
    """At an extremum, Goldstone modes are null vectors; the other eigenvalues of the full matrix give the masses."""
    given = theory(
        "B L:2 R:2",
        (scalar("P", "0 2 2"), scalar("D", "2 1 3")),
        vevs=[("D", 2, 300.0), ("P", 1, 246.0)],
        terms=("P† P P† P: 0.1", "D† D D† D: 0.2", "P† P D† D: 0.05"),
    )
    found = spectrum(given)
    matrix_SS = scalar_matrix(given)[0].matrix_SS
    squares = sorted(np.linalg.eigvalsh(matrix_SS).tolist(), key=abs)
    assert found.tadpole < 1e-6
    assert np.allclose(squares[:6], 0, atol=1e-6)
    own = sorted(
        s.mass * abs(s.mass) for s in found.states for _ in range(s.count * (2 if s.nature == "complex" else 1))
    )
    assert own == pytest.approx(sorted(squares[6:]), abs=1e-6)


def test_scalars_with_mixing_but_no_diagonal_masses() -> None:
    """m² a† b + h.c. without diagonal terms has the eigenvalues ±m²."""
    given = theory("X", (scalar("a", "1"), scalar("b", "1")), terms=("a† b: 400",))
    assert [(state.mass, state.count, state.nature) for state in spectrum(given).states] == [
        (-20, 1, "complex"),
        (20, 1, "complex"),
    ]


def test_which_term_gives_which_mass() -> None:
    made = standard_model(
        right("N", "0 1 1", 3), left("x", "1 1 1"), left("y", "-1 1 1"), terms=("N N: 1e5", "x y: 300")
    )
    assert {state.fields: state.terms for state in spectrum(made).states} == {
        ("L",): (),
        ("L", "e"): (2,),
        ("Q", "u"): (3,),
        ("Q", "d"): (4,),
        ("H",): (1,),
        ("N",): (5,),
        ("x", "y"): (6,),
    }
    mixed = standard_model(left("x", "1 1 1"), left("y", "-1 1 1"), terms=("x y: 300", "L x H†: 0.1"))
    charged = [state.terms for state in spectrum(mixed).states if abs(state.charge) == 1]
    assert charged == [(2, 5, 6), (2,), (2, 5, 6)]


def test_more_terms_than_bits_of_an_integer() -> None:
    made = theory("X", (left("x", "1"), left("y", "-1")), terms=["x y: 1"] * 70)
    (state,) = spectrum(made).states
    assert state.mass == pytest.approx(70)
    assert state.terms == tuple(range(70))


def test_colour_is_the_first_unbroken_factor_in_any_order() -> None:
    made = theory("g:4 X c:3", (left("a", "4 1 1"), left("q", "1 1 3"), left("b", "1 0 8")))
    found = rows(made)
    assert [len(block.indices) for block in unbroken(made).blocks] == [3, 4]
    assert (found["a",].colour, found["q",].colour, found["b",].colour) == (1, 3, 8)
    assert (found["a",].exotic, found["b",].exotic) == (True, True)


HEAVY_LEPTON = (
    "GAUGE U(1) SU(2) SU(3) SSB S1 2 1 +1/2 c2 2e2 MULTIPLETS F1 left 2 1 -1/2 x3 F2 right 1 1 -1 x3 "
    "F3 left 2 3 +1/6 x3 F4 right 1 3 +2/3 x3 F5 right 1 3 -1/3 x3 F6 left 1 1 -1 x1 F7 right 1 1 -1 x1 INTERACTIONS "
    "yukawa F1 F2* S1* 1e-2 yukawa F3 F4* S1 1e0 yukawa F3 F5* S1* 2e-2 mass F6 F7* {mass} mass F2* F6 {mass} "
    "yukawa F1 F7* S1* 5e-2"
)


@pytest.mark.parametrize("mass", ["1e6", "1e9", "1e11", "1e13", "1e16"])
def test_a_light_lepton_keeps_its_mass_next_to_a_heavy_one(mass: str) -> None:
    """F6 and (F7 + F2)/√2 have the mass √2 M. F1 and (F7 - F2)/√2 have (0.05 - 0.01) v / 2 = 4 GeV."""
    found = spectrum(read(HEAVY_LEPTON.format(mass=mass)))
    assert not any(state.exotic and state.mass < 99 for state in found.states)
    leptons = [(s.mass, s.count) for s in found.states if s.kind == "fermion" and s.charge == -1 and s.colour == 1]
    assert {state.nature for state in found.states if state.kind == "fermion" and state.charge} == {"dirac"}
    assert sum(count for _, count in leptons) == 4
    heavy = sqrt(2) * float(mass)
    assert [m for m, _ in leptons] == pytest.approx([sqrt(2), 4.0, heavy], rel=1e-10)


def test_a_small_mass_is_exact_next_to_large_ones_that_do_not_mix() -> None:
    """The octet of SU(3) is 3 + 2 + 2 + 1 of SU(2). The vacuum gives mass to the doublets and the singlet."""
    made = "GAUGE SU(3) SSB S1 3* c2 2e16 MULTIPLETS F1 right 8 x1 F2 left 3 x1 INTERACTIONS yukawa F1* F2 S1 2e-4 "
    found = [state for state in spectrum(read(made + "mass F1* F1* 1e-1")).states if state.kind == "fermion"]
    assert sum(state.count * state.dimension * (1 + (state.nature == "dirac")) for state in found) == 11
    (triplet,) = [state for state in found if state.labels == ((2,),)]
    assert triplet.mass == pytest.approx(0.1, rel=1e-12)


def test_scalars_are_complex_or_real_for_all_masses() -> None:
    made = (
        "GAUGE U(1) SU(2) SU(3) SSB S1 2 1 +1/2 c2 2e2 S2 4 6* -3 c15 2e9 MULTIPLETS F1 left 2 8 -8/3 x1 "
        "INTERACTIONS phi4 S1 S1* S2 S2* 2e-9"
    )
    scalars = [state for state in spectrum(read(made)).states if state.kind == "scalar"]
    assert {state.nature for state in scalars} == {"complex", "real"}
    left = unbroken(read(made))
    broken = 1 + 3 + 8 - len(left.charges) - sum(len(block.indices) ** 2 - 1 for block in left.blocks)
    real = sum(state.count * state.dimension * (1 + (state.nature == "complex")) for state in scalars)
    assert real == 2 * (2 + 24) - broken
