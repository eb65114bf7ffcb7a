"""Properties of anomalies, singlets, terms and spectra of random theories."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.theories.theory_cases import (
    SPECIAL,
    conjugated,
    random_field,
    random_gauge,
    random_theory,
    scaled,
    states_of,
    vector_like_pair,
    with_terms,
)
from steelyard.domains.theories.domain import Theories
from steelyard.domains.theories.grammar.starting_points import STARTING_POINTS
from steelyard.domains.theories.grammar.text import read
from steelyard.domains.theories.groups import Representation, decompose, singlets
from steelyard.domains.theories.model.notation import label_of, left, right, theory
from steelyard.domains.theories.model.theory import GaugeGroup, Leg, QuantumNumbers, SpecialUnitary, Term, Theory
from steelyard.domains.theories.physics.anomalies import anomaly_conditions
from steelyard.domains.theories.physics.couplings import term_tensors
from steelyard.domains.theories.physics.invariance import invariants, term_structures
from steelyard.domains.theories.physics.mass_matrices import component_count, goldstones, scalar_matrix
from steelyard.domains.theories.physics.mass_spectrum import State, spectrum

QUICK = settings(max_examples=50)
seeds = st.integers(0, 2**32)
EVERY = Theories(kinds=tuple(STARTING_POINTS))
factors = st.fractions(min_value=-5, max_value=5, max_denominator=6).filter(bool)


def vanishing(theory: Theory) -> dict[str, bool]:
    return {name: anomaly.cancels for name, anomaly in anomaly_conditions(theory).items()}


def totals(theory: Theory) -> dict[str, Fraction]:
    return {name: anomaly.total for name, anomaly in anomaly_conditions(theory).items()}


@QUICK
@given(seeds)
def test_conjugating_all_fields_changes_signs_only(seed: int) -> None:
    theory = random_theory(random.Random(seed))
    other = totals(conjugated(theory))
    for name, total in totals(theory).items():
        assert other[name] == (total if name.startswith("Witten") else -total)


@QUICK
@given(seeds)
def test_the_order_of_fields_does_not_matter(seed: int) -> None:
    rng = random.Random(seed)
    theory = random_theory(rng)
    fields = list(theory.fields)
    rng.shuffle(fields)
    assert totals(replace(theory, fields=tuple(fields))) == totals(theory)


@QUICK
@given(seeds, st.lists(factors, min_size=2, max_size=2))
def test_scaling_charges_preserves_cancellation(seed: int, scales: list[Fraction]) -> None:
    theory = random_theory(random.Random(seed))
    assert vanishing(scaled(theory, scales[: len(theory.gauge.abelian)])) == vanishing(theory)


@QUICK
@given(seeds)
def test_vector_like_pairs_never_change_an_anomaly(seed: int) -> None:
    rng = random.Random(seed)
    theory = random_theory(rng)
    bare = replace(theory, fields=tuple(field for field in theory.fields if field.name not in "vw"))
    pair = vector_like_pair(rng, theory.gauge)
    assert totals(bare.with_fields(pair)) == totals(bare)


@QUICK
@given(seeds)
def test_chirality_is_conjugation(seed: int) -> None:
    """A right-handed field contributes like its left-handed conjugate."""
    theory = random_theory(random.Random(seed))
    turned = tuple(
        replace(field, kind="left", labels=field.left_handed.labels, charges=field.left_handed.charges)
        if field.fermion
        else field
        for field in theory.fields
    )
    assert anomaly_conditions(replace(theory, fields=turned)) == anomaly_conditions(theory)


@QUICK
@given(seeds)
def test_generations_are_copies(seed: int) -> None:
    theory = random_theory(random.Random(seed))
    copies = tuple(
        replace(field, name=f"{field.name}-{i}", generations=1)
        for field in theory.fields
        for i in range(field.generations)
    )
    assert totals(replace(theory, fields=copies)) == totals(theory)


labels = st.sampled_from([2, 3, 4]).flatmap(
    lambda n: st.tuples(st.just(n), st.lists(st.sampled_from(SPECIAL[n]), min_size=1, max_size=4))
)


@QUICK
@given(labels)
def test_products_have_the_right_size_and_index(given_: tuple[int, list[str]]) -> None:
    """Dimensions multiply, indices obey the product rule, and conjugate products decompose into conjugates."""
    n, texts = given_
    irreps = [Representation(n, label_of(n, text)) for text in texts]
    parts = decompose(n, [irrep.label for irrep in irreps])
    assert min(parts.values()) > 0
    whole = [Representation(n, label) for label in parts for _ in range(parts[label])]
    size = 1
    for irrep in irreps:
        size *= irrep.dimension
    assert sum(irrep.dimension for irrep in whole) == size
    assert sum(irrep.index for irrep in whole) == sum(irrep.index * size / irrep.dimension for irrep in irreps)
    assert sum(irrep.anomaly for irrep in whole) == sum(irrep.anomaly * size / irrep.dimension for irrep in irreps)
    assert decompose(n, [irrep.label[::-1] for irrep in irreps]) == {label[::-1]: t for label, t in parts.items()}


@QUICK
@given(labels)
def test_singlets_by_weights(given_: tuple[int, list[str]]) -> None:
    """The Weyl integral counts singlets: Σ over the weights of the product with the signs of Π (1 - e^α)."""
    n, texts = given_
    found = [label_of(n, text) for text in texts[:3]]
    weights: dict[tuple[int, ...], int] = {(0,) * (n - 1): 1}
    for label in found:
        longer: dict[tuple[int, ...], int] = {}
        for weight, times in weights.items():
            for other in Representation(n, label).weights:
                total = tuple(a + b for a, b in zip(weight, other, strict=True))
                longer[total] = longer.get(total, 0) + times
        weights = longer
    signs: dict[tuple[int, ...], int] = {(0,) * (n - 1): 1}
    for i in range(n):
        for j in range(i + 1, n):
            content = [(k == i) - (k == j) for k in range(n)]
            root = [a - b for a, b in pairwise(content)]
            longer = dict(signs)
            for weight, sign in signs.items():
                moved = tuple(a + b for a, b in zip(weight, root, strict=True))
                longer[moved] = longer.get(moved, 0) - sign
            signs = longer
    counted = sum(times * weights.get(tuple(-w for w in weight), 0) for weight, times in signs.items())
    assert counted == singlets(n, found)


@QUICK
@given(seeds)
def test_the_number_of_structures_equals_that_of_tensors(seed: int) -> None:
    """Counting with characters agrees with constructing the contractions, including identical legs."""
    rng = random.Random(seed)
    gauge = GaugeGroup((), tuple(SpecialUnitary(f"S{i}", rng.choice((2, 3))) for i in range(rng.randint(1, 2))))
    one, two = (random_field(rng, gauge, name, ("scalar",)) for name in "ab")
    theory = Theory(gauge, (one, two))
    legs = tuple(Leg(rng.choice("ab"), rng.random() < 0.5) for _ in range(rng.randint(2, 3)))
    term = Term(legs, 1.0)
    assert len(term_tensors(theory, term)) == term_structures(theory, term)


@QUICK
@given(seeds)
def test_identical_fermions(seed: int) -> None:
    """For g generations, two identical fermions have g(g + 1)/2 couplings if symmetric and g(g - 1)/2 if not."""
    rng = random.Random(seed)
    gauge = GaugeGroup((), tuple(SpecialUnitary(f"S{i}", rng.choice((2, 3))) for i in range(rng.randint(1, 2))))
    field = replace(random_field(rng, gauge, "f", ("left",)), generations=rng.randint(1, 3))
    other = random_field(rng, gauge, "s", ("scalar",))
    theory = Theory(gauge, (field, other))
    legs = (Leg("f"), Leg("f")) + ((Leg("s", rng.random() < 0.5),) if rng.random() < 0.5 else ())
    term = Term(legs, 1.0)
    couplings = 0
    for tensor in term_tensors(theory, term):
        swapped = [1, 0, 2][: len(legs)]
        entries = dict(zip(map(tuple, tensor.index_NL.tolist()), tensor.value_N.tolist(), strict=True))
        mirrored = dict(zip(map(tuple, tensor.index_NL[:, swapped].tolist()), tensor.value_N.tolist(), strict=True))
        symmetric = all(np.isclose(mirrored.get(index, 0.0), value) for index, value in entries.items())
        couplings += field.generations * (field.generations + (1 if symmetric else -1)) // 2
    assert term_structures(theory, term) == couplings


@QUICK
@given(seeds)
def test_a_field_and_its_conjugate_contain_one_singlet(seed: int) -> None:
    rng = random.Random(seed)
    gauge = random_gauge(rng)
    field = random_field(rng, gauge, "f")
    assert invariants(gauge, [field.acts, field.acts.conjugate]) == 1
    charged = QuantumNumbers(field.labels, tuple(q + 1 for q in field.charges))
    assert invariants(gauge, [charged, field.acts.conjugate]) == (0 if gauge.abelian else 1)


@QUICK
@given(seeds, st.integers(0, 10_000))
def test_spectra_conserve_the_number_of_states(seed: int, index: int) -> None:
    """The theories come from the domain and have all kinds of terms and vacua."""
    made = read(EVERY.example(index, seed=seed)[1])
    found = spectrum(made).states
    weyl = {"dirac": 2, "majorana": 1, "weyl": 1}
    fermions = [state for state in found if state.kind == "fermion"]
    assert sum(state.count * state.dimension * weyl[state.nature] for state in fermions) == states_of(made)
    assert real_scalars(found) == 2 * sum(component_count(made, field) for field in made.scalars) - eaten(made)


@QUICK
@given(seeds, st.integers(2, 4), st.sampled_from(("1 1", "1 3", "0 3", "1 8")), st.integers(9, 14))
def test_antiparticles_have_equal_masses_next_to_a_heavy_particle(seed: int, count: int, acts: str, heavy: int) -> None:
    """The last left-handed field has large mass terms with all right-handed fields; the other masses are small."""
    rng = random.Random(seed)
    pairs = [(i, j) for i in range(count) for j in range(count)]
    fields = [make(f"{name}{i}", acts) for name, make in (("a", left), ("b", right)) for i in range(count)]
    terms = [f"a{i} b{j}: {rng.uniform(1, 9) * 10.0 ** (heavy if i == count - 1 else 0)}" for i, j in pairs]
    found = spectrum(theory("X c:3", fields, terms=terms)).states
    assert {state.nature for state in found} == {"dirac"}
    assert sum(state.count for state in found) == count


@QUICK
@given(seeds)
def test_only_broken_generators_remove_scalars(seed: int) -> None:
    """The physical scalars and the Goldstone directions add up to all real scalar components."""
    rng = random.Random(seed)
    made = with_terms(random_theory(rng), rng, tries=20)
    count = 2 * sum(component_count(made, field) for field in made.scalars)
    assert real_scalars(spectrum(made).states) == count - eaten(made)


def real_scalars(found: Sequence[State]) -> int:
    real = {"complex": 2, "real": 1}
    return sum(state.count * state.dimension * real[state.nature] for state in found if state.kind == "scalar")


def eaten(made: Theory) -> int:
    """Count the independent Goldstone directions, with all vacuum expectation values set to 100 GeV."""
    if not made.vevs:
        return 0
    alike = replace(made, vevs=tuple(replace(vev, value=100.0) for vev in made.vevs))
    return int(np.linalg.matrix_rank(goldstones(alike, scalar_matrix(alike)[0].basis)))
