"""PyR@TE and SARAH model files: published conventions and round trips."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.theories.theory_cases import random_theory, with_terms
from steelyard.domains.theories.comparison.canonical_form import canonical
from steelyard.domains.theories.interchange import pyrate_reader, pyrate_writer, sarah_reader, sarah_writer
from steelyard.domains.theories.interchange.pyrate_syntax import block, entries, items, names, without_comments
from steelyard.domains.theories.model.known_models import MODELS, models, standard_model
from steelyard.domains.theories.model.notation import left, right, scalar, theory
from steelyard.domains.theories.model.theory import Theory, term_kind
from steelyard.domains.theories.physics.contractions import contractions
from steelyard.domains.theories.physics.couplings import term_tensors
from steelyard.errors import DataError

PUBLISHED_PYRATE = """
# YAML 1.1
---
Author: somebody
Name: SM
Groups: {U1Y: U1, SU2L: SU2, SU3c: SU3}

Fermions: {
    Q: {Gen: 3, Qnb:{ U1Y: 1/6, SU2L: 2, SU3c: 3}},
    L: {Gen: 3, Qnb:{ U1Y: -1/2, SU2L: 2}},
    uR: [3, 2/3, 1, 3],
    dR: {Gen: 3, Qnb:{ U1Y: -1/3, SU2L: 1, SU3c: 3}},
    eR: {Gen: 3, Qnb:{ U1Y: -1, SU2L: 1, SU3c: 1}},
}
RealScalars: {
}
CplxScalars: {
    H: {RealFields: [Pi, Sigma], Norm: 1/Sqrt(2), Qnb: {U1Y: 1/2, SU2L: 2, SU3c: 1}},
}
Potential: {
Definitions:{
    Htilde[i] : Eps[i,j]*Hbar[j]
},
Yukawas:{
    Yu : Qbar[i,a] Htilde[i] uR[a],
    Yd : Qbar[i,a] H[i] dR[a]
    Ye : Lbar[i] H[i] eR,
},
QuarticTerms: {
    lambda : (Hbar[i] H[i])**2,
},
ScalarMasses: {
    mu : Hbar[i] H[i],
}
}
Vevs: {
    v: Pi[2]
}
Substitutions: {
    g_U1Y : g1,
}
"""
PUBLISHED_SARAH = """
Off[General::spell]
Model`Name = "SM";
(* Gauge Groups *)
Gauge[[1]]={B,   U[1], hypercharge, g1,False};
Gauge[[2]]={WB, SU[2], left,        g2,True};
Gauge[[3]]={G,  SU[3], color,       g3,False};
FermionFields[[1]] = {q, 3, {uL, dL},     1/6, 2,  3};
FermionFields[[2]] = {l, 3, {vL, eL},    -1/2, 2,  1};
FermionFields[[3]] = {d, 3, conj[dR],     1/3, 1, -3};
FermionFields[[4]] = {u, 3, conj[uR],    -2/3, 1, -3};
FermionFields[[5]] = {e, 3, conj[eR],       1, 1,  1};
ScalarFields[[1]] =  {H, 1, {Hp, H0},     1/2, 2,  1};
NameOfStates={GaugeES, EWSB};
DEFINITION[GaugeES][LagrangianInput]= {
    {LagHC, {AddHC->True}},
    {LagNoHC,{AddHC->False}}
};
LagNoHC = -mu2 conj[H].H - 1/2 \\[Lambda] conj[H].H.conj[H].H;
LagHC =  -(Yd conj[H].d.q + Ye conj[H].e.l + Yu H.u.q);
DEFINITION[EWSB][VEVs]=
{    {H0, {v, 1/Sqrt[2]}, {Ah, \\[ImaginaryI]/Sqrt[2]},{hh, 1/Sqrt[2]}}     };
"""
SIZES = {"Yukawas": 3, "QuarticTerms": 4, "TrilinearTerms": 3, "ScalarMasses": 2, "FermionMasses": 2}


def unordered(given_: Theory) -> tuple[object, ...]:
    fields = sorted(given_.fields, key=lambda field: field.name)
    return given_.gauge, fields, given_.vevs, sorted(given_.terms, key=str)


def assert_schema(text: str) -> None:
    """Check PyR@TE's requirements: known sections, a group for every quantum number, unique names, the right number of
    fields per section, and every index used exactly twice.
    """
    file = entries(without_comments(text))
    assert {"Name", "Author", "Date", "Groups"} <= set(file)
    groups = block(file["Groups"])
    fermions, scalars = block(file["Fermions"]), block(file["ComplexScalars"])
    real = [part for entry in scalars.values() for part in items(block(entry)["RealFields"])]
    every = [*fermions, *scalars, *real]
    assert len(set(every)) == len(every)
    for entry in (*fermions.values(), *scalars.values()):
        assert set(block(block(entry)["Qnb"])) <= set(groups)
    potential = block(file["Potential"])
    defined = block(potential.pop("Definitions", "{}"))
    assert set(potential) <= set(SIZES)
    for section, size in SIZES.items():
        for formula in block(potential.get(section, "")).values():
            product = items(formula)[0]
            fields = [name for name in names(product) if name != "Eps" and name not in defined]
            assert len(fields) == size
            assert {name.removesuffix("bar") for name in fields} <= {*fermions, *scalars}
            indices = Counter(index for part in re.findall(r"\[([^\]]*)\]", product) for index in part.split(","))
            assert set(indices.values()) <= {2}
            assert not set(indices) & set(every)


@pytest.mark.parametrize("name", MODELS)
def test_known_models_round_trip(name: str) -> None:
    model = models()[name]
    text = pyrate_writer.write(model, name="model")
    assert_schema(text)
    assert unordered(pyrate_reader.read(text)) == unordered(model)
    files = sarah_writer.write(model)
    assert unordered(sarah_reader.read(files["Theory.m"], files["parameters.m"])) == unordered(model)


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_random_theories_round_trip(seed: int) -> None:
    rng = random.Random(seed)
    made = with_terms(random_theory(rng), rng)
    text = pyrate_writer.write(made)
    assert_schema(text)
    assert canonical(pyrate_reader.read(text)) == canonical(made)
    files = sarah_writer.write(made)
    assert canonical(sarah_reader.read(files["Theory.m"], files["parameters.m"])) == canonical(made)


def test_the_published_pyrate_model_is_the_standard_model() -> None:
    found = pyrate_reader.read(PUBLISHED_PYRATE)
    assert canonical(found) == canonical(standard_model())
    assert [field.name for field in found.fields] == ["Q", "L", "u", "d", "e", "H"]
    assert found.vevs[0].component == 1


def test_our_pyrate_model_agrees_with_the_published_one() -> None:
    ours, theirs = (
        entries(without_comments(text)) for text in (pyrate_writer.write(standard_model()), PUBLISHED_PYRATE)
    )
    assert block(ours["Groups"]) == block(theirs["Groups"])
    mine, published = block(ours["Fermions"]), block(theirs["Fermions"])
    assert set(mine) == set(published) == {"Q", "L", "uR", "dR", "eR"}
    assert block(block(mine["Q"])["Qnb"]) == block(block(published["Q"])["Qnb"])
    yukawas = block(block(ours["Potential"])["Yukawas"])
    assert sorted(yukawas.values()) == ["Eps[i,j]*Qbar[i,k]*uR[k]*Hbar[j]", "Lbar[i]*eR*H[i]", "Qbar[i,j]*dR[j]*H[i]"]
    assert block(ours["Vevs"]) == {"v1": "HRe[2]"}


def test_the_published_sarah_model_is_the_standard_model() -> None:
    found = sarah_reader.read(PUBLISHED_SARAH)
    assert canonical(found) == canonical(standard_model())
    assert found.gauge == standard_model().gauge
    assert found.vevs == standard_model().vevs


def test_our_sarah_model_has_the_rows_of_the_published_one() -> None:
    def rows(text: str, kind: str) -> set[str]:
        return {re.sub(r"\s", "", row).lower() for row in re.findall(rf"{kind}\[\[\d+\]\]\s*=(.*);", text)}

    model = sarah_writer.write(standard_model(), name="SM")["SM.m"]
    for kind in ("GaugeGroup", "FermionFields", "ScalarFields"):
        assert rows(model, kind) == rows(PUBLISHED_SARAH, kind)
    assert "LagHC = -(Ye L.e.conj[H] + Yu Q.u.H + Yd Q.d.conj[H]);" in model
    assert "{{{dL}, {conj[dR]}}, {{DL, Vd}, {DR, Ud}}}" in model
    assert "{{VB, VWB[3]}, {VP, VZ}, ZZ}" in model
    assert "{H0, {v, 1/Sqrt[2]}, {Ah, \\[ImaginaryI]/Sqrt[2]}, {hh, 1/Sqrt[2]}}" in model


def test_names_with_a_special_meaning() -> None:
    """A left-handed field ending in R, a field named like an index, and symbols reserved by Mathematica."""
    made = theory(
        "X c:3",
        (left("aR", "1 3"), right("i", "1 3"), left("D", "2 1"), left("N", "-2 1"), scalar("j", "0 8")),
        terms=("aR i: 5", "aR i j: 1", "D N: 2"),
    )
    text = pyrate_writer.write(made)
    assert_schema(text)
    assert unordered(pyrate_reader.read(text)) == unordered(made)
    files = sarah_writer.write(made)
    assert "{Df, 1," in files["Theory.m"]
    assert unordered(sarah_reader.read(files["Theory.m"], files["parameters.m"])) == unordered(made)


def test_representations_with_an_ambiguous_dimension() -> None:
    made = theory("c:3 g:4", (left("a", "15 1"), left("b", "15' 20"), right("s", "-6 20'"), left("t", "10 -20")))
    assert "SU3c: [4,0], SU4g: [1,1,0]" in pyrate_writer.write(made)
    assert pyrate_reader.read(pyrate_writer.write(made)) == made
    assert "{15, {2, 1}}" in sarah_writer.write(made)["Theory.m"]
    assert sarah_reader.read(sarah_writer.write(made)["Theory.m"]) == made


@pytest.mark.parametrize(
    ("text", "count"), [("H† H H† H", 1), ("H† H A† A", 2), ("S† S S† S", 1), ("P† P P† P", 2), ("Q L S", 1)]
)
def test_the_number_of_contractions_equals_that_of_tensors(text: str, count: int) -> None:
    made = standard_model(scalar("A", "1/2 2 1"), scalar("S", "1/3 1 -3"), scalar("P", "1/6 2 3"), terms=(text,))
    term = made.terms[-1]
    assert term_kind(made, term)
    assert len(contractions(made, term)) == len(term_tensors(made, term)) == count


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("Groups: {U1Y: U1,", "Groups: {U1Y: SO10,"), "U1Y = SO10 is not supported; use U1 or SUn"),
        (("SU2L: 2, SU3c: 3}},\n    L", "SU2L: 2, SU9: 3}},\n    L"), "SU9, which is not in Groups"),
        (("Yd : Qbar[i,a] H[i] dR[a]", "Yd : Qbar[i,a] X[i] dR[a]"), "the potential uses X"),
        (("Yd : Qbar[i,a] H[i] dR[a]", "Yd : Q[i,a] H[i] dR[a]"), "Yd = Q H d is not a supported term"),
        (("RealScalars: {\n", "RealScalars: {\n xi : {SU2L: 3}\n"), "move its fields to ComplexScalars"),
        (("v: Pi[2]", "v: Ho[2]"), "Ho, which is not the real part"),
        (("SU3c: 3}},\n    L", "SU3c: 7}},\n    L"), "dimension 7"),
        (("Q: {Gen: 3,", "Q: {Gen: nG,"), "Gen of Q = 'nG'"),
        (("SU3c: 3}},\n    L", "SU3c: 3bar}},\n    L"), "SU3c of Q = '3bar'"),
        (("SU3c: 3}},\n    L", "SU3c: [1,x]}},\n    L"), "SU3c of Q = 'x'"),
        (("U1Y: 1/6", "U1Y: yq"), "U1Y of Q = 'yq'"),
        (("uR: [3, 2/3, 1, 3]", "uR: [3, 2/3, 1]"), "has 2 quantum numbers; list one per group (3)"),
        (("RealFields: [Pi, Sigma], ", ""), "not the real part"),
        (("v: Pi[2]", "v: Pi[3]"), "vev of H is in component [3]"),
        (("v: Pi[2]", "v: Pi"), "vev of H is in component []"),
        (("Vevs: {", "# vev v = X 1 246.0\nVevs: {"), "X, which is not a field"),
        (("Vevs: {", "# value Yu = much\nVevs: {"), "value of Yu = 'much'"),
        (("Potential: {", "Potential: {{"), "not closed"),
        (("Groups: {U1Y: U1, SU2L: SU2, SU3c: SU3}", ""), "Groups is missing"),
    ],
)
def test_errors_in_a_pyrate_model(change: tuple[str, str], message: str) -> None:
    assert change[0] in PUBLISHED_PYRATE
    with pytest.raises(DataError, match=re.escape(message)):
        pyrate_reader.read(PUBLISHED_PYRATE.replace(*change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("U[1]", "SO[10]"), "SO[10] is not supported; use U[1] or SU[n]"),
        (("Yu H.u.q", "Yu X.u.q"), "the Lagrangian uses X"),
        (("Yu H.u.q", "Yu conj[q].u.q"), "conj[q].u.q is not a supported term"),
        (("1/2, 2,  1};\nName", "1/2};\nName"), "1 quantum numbers; list one per group (3)"),
        (("{H0, {v", "{Hx, {v"), "Hx, which is not a component"),
        (("Gauge[[", "Gage[["), "Gauge[[1]] is missing"),
        (("{B,   U[1], hypercharge, g1,False}", "{B, U[1]}"), "it needs a boson, a group and a name"),
        (("{q, 3, {uL, dL},     1/6", "{q, 3, {uL, dL},     yq"), "charge of q = 'yq'"),
        (("{q, 3, {uL, dL},", "{q, nG, {uL, dL},"), "generations of q = 'nG'"),
        (("1/6, 2,  3}", "1/6, 2,  three}"), "representation of q = 'three'"),
        (("1/6, 2,  3}", "1/6, 2,  {3}}"), "not a Dynkin label of SU(3)"),
        (("{q, 3, {uL, dL},     1/6, 2,  3}", "{q, 3}"), "it needs a name, generations, components"),
        (("{H0, {v, 1/Sqrt[2]}, {Ah, \\[ImaginaryI]/Sqrt[2]},{hh, 1/Sqrt[2]}}", "{H0}"), "vev {H0}"),
    ],
)
def test_errors_in_a_sarah_model(change: tuple[str, str], message: str) -> None:
    assert change[0] in PUBLISHED_SARAH
    with pytest.raises(DataError, match=re.escape(message)):
        sarah_reader.read(PUBLISHED_SARAH.replace(*change))


def test_a_complex_scalar_without_a_vev_needs_no_real_fields() -> None:
    text = PUBLISHED_PYRATE.replace("RealFields: [Pi, Sigma], ", "").replace("v: Pi[2]", "")
    assert pyrate_reader.read(text).by_name["H"].kind == "scalar"


def test_identical_fermions_with_a_symmetric_contraction_have_a_symmetric_matrix() -> None:
    """L L is symmetric in generations with a triplet, and antisymmetric with a singlet (Zee model)."""
    made = standard_model(
        scalar("D", "1 3 1"), scalar("h", "1 1 1"), right("N", "0 1 1", 3), terms=("L L D: 1", "L L h: 1", "N N: 1000")
    )
    potential = block(entries(without_comments(pyrate_writer.write(made)))["Potential"])
    yukawas, masses = block(potential["Yukawas"]), block(potential["FermionMasses"])
    assert items(yukawas["Y6"])[1:] == ["symmetric"]
    assert items(yukawas["Y7"]) == ["Eps[i,j]*L[i]*L[j]*h"]
    assert items(masses["M8"]) == ["NR*NR", "symmetric"]


def test_coupling_names_differ_from_field_names() -> None:
    made = theory(
        "X", (left("M", "1"), left("Y3", "-1"), scalar("s", "2")), terms=("M Y3: 5", "M M s†: 1", "Y3 Y3 s: 1")
    )
    files = sarah_writer.write(made)
    assert sarah_writer.couplings(made) == ["M1", "Y2", "Y3x"]
    assert unordered(sarah_reader.read(files["Theory.m"], files["parameters.m"])) == unordered(made)
