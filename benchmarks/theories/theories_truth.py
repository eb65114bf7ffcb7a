"""Exact group theory agrees with printed tables, classifies every known model correctly, and is self-consistent.

Random theories are rewritten (conjugated, permuted, scaled, expressed in another basis of the U(1)s), extended with
vector-like pairs, and round-tripped through PyR@TE and SARAH files. Singlets are counted by characters and constructed
as tensors, which all generators must annihilate. Masses are compared with formulas.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import sqrt

import numpy as np
from rich.progress import Progress

from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.theories.theory_cases import (
    SPECIAL,
    cases,
    conjugated,
    random_theory,
    rebased,
    renamed,
    reordered,
    scaled,
    states_of,
    table,
    vector_like_pair,
    with_singlets,
    with_terms,
)
from steelyard.domains.theories.comparison.canonical_form import canonical
from steelyard.domains.theories.groups import Representation, singlets
from steelyard.domains.theories.groups.generators import hermitian
from steelyard.domains.theories.groups.invariants import SpecialUnitaryLeg, tensors
from steelyard.domains.theories.interchange import pyrate_reader, pyrate_writer, sarah_reader, sarah_writer
from steelyard.domains.theories.model.known_models import models, standard_model
from steelyard.domains.theories.model.notation import label_of, right
from steelyard.domains.theories.model.theory import Theory
from steelyard.domains.theories.physics.anomalies import anomaly_conditions
from steelyard.domains.theories.physics.mass_spectrum import spectrum

THEORIES, REWRITTEN, TENSORS, EXPORTED, SPECTRA = 10_000, 1_000, 300, 300, 300
Row = dict[str, Cell]


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses a twentieth of the random cases."""
    share = 20 if quick else 1
    rows = [
        _row("index and anomaly of the tables", [_table_entry(*entry) for entry in table()]),
        _row("models classified", [_classified(case.theory, case.broken) for case in cases()]),
        *_anomalies(THEORIES // share, progress),
        _row("canonical form, rewritten theory", list(_each("rewritten", REWRITTEN // share, progress, _rewritten))),
        _row("singlets counted and constructed", list(_each("tensors", TENSORS // share, progress, _constructed))),
        _row("PyR@TE and SARAH round trip", list(_each("exported", EXPORTED // share, progress, _round_trips))),
        _row("states of a spectrum", list(_each("spectra", SPECTRA // share, progress, _adds_up))),
    ]
    by_name = {str(row["check"]): row for row in rows}
    figures = (
        Figure("table entries wrong", _wrong(by_name["index and anomaly of the tables"]), "<=", 0),
        Figure("models misclassified", _wrong(by_name["models classified"]), "<=", 0),
        Figure("conditions changed by conjugation", _wrong(by_name["all fields conjugated"]), "<=", 0),
        Figure("conditions changed by permutation", _wrong(by_name["fields permuted"]), "<=", 0),
        Figure("conditions changed by scaling charges", _wrong(by_name["charges scaled"]), "<=", 0),
        Figure("conditions changed by a vector-like pair", _wrong(by_name["vector-like pair added"]), "<=", 0),
        Figure("canonical forms changed", _wrong(by_name["canonical form, rewritten theory"]), "<=", 0),
        Figure("singlets miscounted or not invariant", _wrong(by_name["singlets counted and constructed"]), "<=", 0),
        Figure("exports that do not round-trip", _wrong(by_name["PyR@TE and SARAH round trip"]), "<=", 0),
        Figure("spectra that lose states", _wrong(by_name["states of a spectrum"]), "<=", 0),
        Figure("largest relative error of masses", _mass_error(), "<=", 1e-9),
    )
    note = (
        f"{len(table())} table entries and {len(cases())} models, {len(models())} of them anomaly-free. "
        f"{by_name['all fields conjugated']['anomaly-free']} of the random theories are anomaly-free."
    )
    return Result("theories-truth", figures, rows, note)


def _table_entry(n: int, label: tuple[int, ...], index: Fraction, anomaly: Fraction) -> bool:
    irrep = Representation(n, label)
    return (irrep.index, irrep.anomaly, irrep.conjugate.anomaly) == (index, anomaly, -anomaly)


def _classified(theory: Theory, broken: dict[str, Fraction]) -> bool:
    return {name: own.total for name, own in anomaly_conditions(theory).items() if not own.cancels} == broken


def _anomalies(count: int, progress: Progress) -> Iterator[Row]:
    """Check the same random theories after four kinds of change."""
    checks: dict[str, Callable[[Theory, random.Random], bool]] = {
        "all fields conjugated": lambda theory, _: _vanishing(conjugated(theory)) == _vanishing(theory),
        "fields permuted": _permuted,
        "charges scaled": _scaled,
        "vector-like pair added": _paired,
    }
    found: dict[str, list[bool]] = {name: [] for name in checks}
    free = 0
    for number in progress.track(range(count), description="anomalies"):
        rng = random.Random(f"anomalies {number}")
        theory = random_theory(rng)
        free += all(_vanishing(theory).values())
        for name, check in checks.items():
            found[name].append(check(theory, rng))
    for name, results in found.items():
        yield {**_row(name, results), "anomaly-free": free}


def _permuted(theory: Theory, rng: random.Random) -> bool:
    fields = list(theory.fields)
    rng.shuffle(fields)
    return _totals(Theory(theory.gauge, tuple(fields))) == _totals(theory)


def _scaled(theory: Theory, rng: random.Random) -> bool:
    factors = [Fraction(rng.choice((-5, -3, -1, 2, 7)), rng.randint(1, 6)) for _ in theory.gauge.abelian]
    return _vanishing(scaled(theory, factors)) == _vanishing(theory)


def _paired(theory: Theory, rng: random.Random) -> bool:
    bare = Theory(theory.gauge, tuple(own for own in theory.fields if own.name not in "vw"))
    return _totals(bare.with_fields(vector_like_pair(rng, theory.gauge))) == _totals(bare)


def _totals(theory: Theory) -> dict[str, Fraction]:
    return {name: anomaly.total for name, anomaly in anomaly_conditions(theory).items()}


def _vanishing(theory: Theory) -> dict[str, bool]:
    return {name: not total for name, total in _totals(theory).items()}


def _rewritten(rng: random.Random) -> bool:
    theory = with_terms(random_theory(rng), rng, tries=20)
    other = theory
    for change in (renamed, rebased, reordered, with_singlets):
        other = change(other, rng)
    return canonical(other) == canonical(theory)


def _constructed(rng: random.Random) -> bool:
    """Whether there are as many tensors as singlets, all invariant under every Hermitian generator."""
    n = rng.choice((2, 3, 3, 4))
    texts = rng.choices(SPECIAL[n], k=rng.randint(2, 4 if n < 4 else 3))
    legs = tuple(SpecialUnitaryLeg(label_of(n, text), rng.random() < 0.5) for text in texts)
    labels = [leg.label[::-1] if leg.conjugate else leg.label for leg in legs]
    found = tensors(n, legs)
    return len(found) == singlets(n, labels) and all(_is_invariant(n, legs, *tensor) for tensor in found)


def _is_invariant(n: int, legs: tuple[SpecialUnitaryLeg, ...], index_NL: np.ndarray, value_N: np.ndarray) -> bool:
    dense = np.zeros([Representation(n, leg.label).dimension for leg in legs])
    dense[tuple(index_NL.T)] = value_N
    for a in range(n * n - 1):
        change = np.zeros(dense.shape, complex)
        for i, leg in enumerate(legs):
            matrix = hermitian(n, leg.label)[a]
            change += np.moveaxis(np.tensordot(dense, -matrix.T if leg.conjugate else matrix, (i, 0)), -1, i)
        if np.abs(change).max() > 1e-9:
            return False
    return True


def _round_trips(rng: random.Random) -> bool:
    theory = with_terms(random_theory(rng), rng, tries=30)
    files = sarah_writer.write(theory)
    own = canonical(theory)
    return (
        own
        == canonical(pyrate_reader.read(pyrate_writer.write(theory)))
        == canonical(sarah_reader.read(files["Theory.m"], files["parameters.m"]))
    )


def _adds_up(rng: random.Random) -> bool:
    theory = with_terms(random_theory(rng), rng, tries=30)
    weyl = {"dirac": 2, "majorana": 1, "weyl": 1}
    states = [state for state in spectrum(theory).states if state.kind == "fermion"]
    return sum(state.count * state.dimension * weyl[state.nature] for state in states) == states_of(theory)


def _mass_error() -> float:
    """Compare the Standard Model's quarks, leptons and Higgs, and seesaws at two scales, with formulas."""
    v, dirac = 246.0, 0.1 * 246.0 / sqrt(2)
    charged = [0.01 * v / sqrt(2), 0.02 * v / sqrt(2), sqrt(0.2) * v, v / sqrt(2)]
    wanted = {standard_model(): [0.0, *charged]}
    for heavy in (1e3, 1e14):
        seesaw = standard_model(right("N", "0 1 1", 3), terms=("L N H: 0.1", f"N N: {heavy}"))
        heavier = (heavy + sqrt(heavy**2 + 4 * dirac**2)) / 2
        wanted[seesaw] = [dirac**2 / heavier, *charged, heavier]
    worst = 0.0
    for theory, masses in wanted.items():
        found = [state.mass for state in spectrum(theory).states]
        pairs = zip(found, sorted(masses), strict=True)
        worst = max([worst, *(abs(a - b) / b if b else abs(a) for a, b in pairs)])
    return worst


def _each(name: str, count: int, progress: Progress, check: Callable[[random.Random], bool]) -> Iterator[bool]:
    for number in progress.track(range(count), description=name):
        yield check(random.Random(f"{name} {number}"))


def _row(check: str, results: list[bool]) -> Row:
    return {"check": check, "cases": len(results), "wrong": results.count(False), "anomaly-free": ""}


def _wrong(row: Row) -> float:
    return float(row["wrong"])
