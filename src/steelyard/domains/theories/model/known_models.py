"""Well-known models, used as starting points and to measure novelty.

All models are anomaly-free, with charges as in the literature. The vacuum determines which charge is electric. Models
without scalars are included for their fermion content.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from steelyard.domains.theories.model.notation import FieldSpec, left, right, scalar, theory
from steelyard.domains.theories.model.theory import Theory

STANDARD_MODEL_GROUP = "Y L:2 c:3"
FERMIONS = (
    left("L", "-1/2 2 1", 3),
    right("e", "-1 1 1", 3),
    left("Q", "1/6 2 3", 3),
    right("u", "2/3 1 3", 3),
    right("d", "-1/3 1 3", 3),
)
HIGGS = scalar("H", "1/2 2 1")
VACUUM = (("H", 1, 246.0),)
POTENTIAL = ("H† H: 1e4", "H† H H† H: 0.1")
YUKAWAS = ("L e H†: 0.01", "Q u H: 1", "Q d H†: 0.02")


def standard_model(
    *extra: FieldSpec, vevs: tuple[tuple[str, int, float], ...] = (), terms: tuple[str, ...] = ()
) -> Theory:
    """Return the Standard Model, optionally with extra fields, vacuum expectation values and terms."""
    fields, terms = (HIGGS, *FERMIONS, *extra), (*POTENTIAL, *YUKAWAS, *terms)
    return theory(STANDARD_MODEL_GROUP, fields, vevs=(*VACUUM, *vevs), terms=terms)


def two_higgsinos() -> Theory:
    return standard_model(left("hu", "1/2 2 1"), left("hd", "-1/2 2 1"), terms=("hu hd: 1000",))


def type_one_seesaw() -> Theory:
    return standard_model(right("N", "0 1 1", 3), terms=("L N H: 1", "N N: 1e14"))


def type_two_seesaw() -> Theory:
    terms = ("L L D: 1e-9", "H H D†: -10")
    return standard_model(scalar("D", "1 3 1"), vevs=(("D", 2, 1.0),), terms=terms)


def type_three_seesaw() -> Theory:
    return standard_model(left("S", "0 3 1", 3), terms=("L S H: 0.1", "S S: 1e6"))


def two_higgs_doublets() -> Theory:
    return standard_model(scalar("A", "1/2 2 1"), terms=("A† A: 1e6", "A† A H† H: 0.1"))


def leptoquark() -> Theory:
    return standard_model(scalar("S", "1/3 1 -3"), terms=("S† S: 1e6", "Q L S: 0.1"))


def vector_like_quark() -> Theory:
    return standard_model(left("t", "2/3 1 3"), right("T", "2/3 1 3"), terms=("t T: 2000", "Q T H: 0.1"))


def b_minus_l() -> Theory:
    fields = (*_with_b_minus_l(), scalar("S", "0 2 1 1"), right("N", "0 -1 1 1", 3))
    vevs = (*VACUUM, ("S", 0, 5000.0))
    terms = (*POTENTIAL, *YUKAWAS, "S† S S† S: 0.1", "L N H: 1e-6", "N N S†: 0.1")
    return theory("Y B L:2 c:3", fields, vevs=vevs, terms=terms)


def b_minus_l_exotic() -> Theory:
    """Gauged B - L with left-handed singlets of charges 4, 4 and -5 instead of three antineutrinos."""
    fields = (*_with_b_minus_l(), left("N", "0 4 1 1", 2), left("M", "0 -5 1 1"))
    return theory("Y B L:2 c:3", fields, vevs=VACUUM, terms=(*POTENTIAL, *YUKAWAS))


def l_mu_minus_l_tau() -> Theory:
    leptons = [
        sketch
        for name, charge in (("1", 0), ("2", 1), ("3", -1))
        for sketch in (left(f"L{name}", f"-1/2 {charge} 2 1"), right(f"e{name}", f"-1 {charge} 1 1"))
    ]
    quarks = (left("Q", "1/6 0 2 3", 3), right("u", "2/3 0 1 3", 3), right("d", "-1/3 0 1 3", 3))
    terms = (*POTENTIAL, *YUKAWAS[1:], *(f"L{name} e{name} H†: 0.01" for name in "123"))
    return theory("Y X L:2 c:3", (scalar("H", "1/2 0 2 1"), *leptons, *quarks), vevs=VACUUM, terms=terms)


def su5() -> Theory:
    """SU(5) with ⟨24⟩ ∝ diag(2, 2, 2, -3, -3), a sum of the states diag(1, 1, 1, 1, -4) and diag(1, 1, 1, -3, 0)."""
    fields = (scalar("H", "5"), scalar("A", "24"), left("F", "-5", 3), left("T", "10", 3))
    vevs = (("A", 13, 1e16 * 3 / 20 * 20**0.5), ("A", 12, 1e16 * 5 / 20 * 12**0.5), ("H", 4, 246.0))
    return theory("G:5", fields, vevs=vevs, terms=("T F H†: 0.02", "T T H: 1"))


def su5_chi() -> Theory:
    return theory("X G:5", (scalar("H", "2 5"), left("F", "3 -5", 3), left("T", "-1 10", 3), left("N", "-5 1", 3)))


def su6() -> Theory:
    return theory("G:6", (left("T", "15", 3), left("F", "-6", 6)))


def pati_salam() -> Theory:
    fermions = (left("F", "2 1 4", 3), left("G", "1 2 -4", 3))
    scalars = (scalar("B", "2 2 1"), scalar("D", "1 2 4"))
    vevs = (("D", 3, 1e15), ("B", 1, 246.0))
    return theory("L:2 R:2 C:4", (*scalars, *fermions), vevs=vevs, terms=("F G B: 1",))


def left_right() -> Theory:
    """Left-right symmetric model with gauged B - L, a bidoublet and an SU(2)_R triplet."""
    fermions = (
        left("L", "-1 2 1 1", 3),
        right("l", "-1 1 2 1", 3),
        left("Q", "1/3 2 1 3", 3),
        right("q", "1/3 1 2 3", 3),
    )
    scalars = (scalar("B", "0 2 2 1"), scalar("D", "2 1 3 1"))
    terms = ("L l B: 0.01", "Q q B: 1", "l l D†: 0.1")
    vevs = (("D", 2, 1e4), ("B", 1, 246.0))
    return theory("B L:2 R:2 c:3", (*scalars, *fermions), vevs=vevs, terms=terms)


def trinification() -> Theory:
    return theory("c:3 L:3 R:3", (left("Q", "3 -3 1", 3), left("q", "-3 1 3", 3), left("l", "1 3 -3", 3)))


def three_three_one() -> Theory:
    """SU(3)_c × SU(3)_L × U(1)_X with right-handed neutrinos; anomalies cancel only across three generations."""
    fermions = (
        left("l", "-1/3 1 3", 3),
        right("e", "-1 1 1", 3),
        left("Q", "0 3 -3", 2),
        left("T", "1/3 3 3"),
        right("u", "2/3 3 1", 4),
        right("d", "-1/3 3 1", 5),
    )
    return theory("X c:3 L:3", fermions)


def chiral_u1() -> Theory:
    return theory("X", (left("a", "5"), left("b", "-4", 2), left("c", "1", 3)))


MODELS: dict[str, Callable[[], Theory]] = {
    "Standard Model": standard_model,
    "Standard Model with two Higgs doublets": two_higgs_doublets,
    "type I seesaw": type_one_seesaw,
    "type II seesaw": type_two_seesaw,
    "type III seesaw": type_three_seesaw,
    "scalar leptoquark S1": leptoquark,
    "vector-like quark": vector_like_quark,
    "Standard Model with two Higgsinos": two_higgsinos,
    "U(1) of B - L": b_minus_l,
    "U(1) of B - L, charges 4, 4, -5": b_minus_l_exotic,
    "U(1) of Lμ - Lτ": l_mu_minus_l_tau,
    "SU(5)": su5,
    "SU(5) × U(1)_χ": su5_chi,
    "SU(6)": su6,
    "Pati-Salam": pati_salam,
    "left-right symmetric": left_right,
    "trinification": trinification,
    "331": three_three_one,
    "U(1) with 5, -4, -4, 1, 1, 1": chiral_u1,
}


@cache
def models() -> dict[str, Theory]:
    """Return all known models by name."""
    return {name: make() for name, make in MODELS.items()}


def _with_b_minus_l() -> list[FieldSpec]:
    """Return the Standard Model's Higgs and fermions with B - L as a second charge."""
    second = {"H": "0", "L": "-1", "e": "-1", "Q": "1/3", "u": "1/3", "d": "1/3"}
    found: list[FieldSpec] = []
    for sketch in (HIGGS, *FERMIONS):
        first, rest = sketch.acts.split(maxsplit=1)
        acts = f"{first} {second[sketch.name]} {rest}"
        found.append(FieldSpec(sketch.name, sketch.kind, acts, sketch.generations))
    return found
