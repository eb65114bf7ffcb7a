"""SU(n) group theory compared with published tables and with decompositions computed by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.theories.theory_cases import table
from steelyard.domains.theories.groups import Representation, decompose, representation, singlets
from steelyard.domains.theories.groups.generators import cartan, hermitian, module
from steelyard.domains.theories.groups.invariants import SpecialUnitaryLeg, exact_tensors, tensors
from steelyard.domains.theories.model.notation import label_of, notation_of


@pytest.mark.parametrize(("n", "label", "index", "anomaly"), table())
def test_index_and_anomaly(n: int, label: tuple[int, ...], index: Fraction, anomaly: Fraction) -> None:
    irrep = Representation(n, label)
    assert (irrep.index, irrep.anomaly) == (index, anomaly)
    assert (irrep.conjugate.index, irrep.conjugate.anomaly) == (index, -anomaly)
    assert len(irrep.weights) == irrep.dimension


@pytest.mark.parametrize("n", [3, 4, 5, 6, 7])
def test_index_and_anomaly_by_formula(n: int) -> None:
    def label(**at: int) -> tuple[int, ...]:
        return tuple(at.get(f"a{k}", 0) for k in range(1, n))

    antisymmetric = Representation(n, label(a2=1))
    symmetric = Representation(n, label(a1=2))
    adjoint = Representation(n, (1, *(0,) * (n - 3), 1))
    assert (antisymmetric.dimension, antisymmetric.index, antisymmetric.anomaly) == (
        n * (n - 1) // 2,
        Fraction(n - 2, 2),
        n - 4,
    )
    assert (symmetric.dimension, symmetric.index, symmetric.anomaly) == (n * (n + 1) // 2, Fraction(n + 2, 2), n + 4)
    assert (adjoint.dimension, adjoint.index, adjoint.anomaly) == (n * n - 1, n, 0)


@pytest.mark.parametrize(
    ("n", "text", "name"),
    [(3, "3", "3"), (3, "-3", "3̅"), (3, "15'", "15'"), (3, "-15'", "1̅5̅'"), (4, "20''", "20''"), (2, "2", "2")],
)
def test_names(n: int, text: str, name: str) -> None:
    label = label_of(n, text)
    assert Representation(n, label).name == name
    assert notation_of(n, label) == text


def test_a_missing_dimension_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 representations of dimension 7"):
        representation(3, 7)
    with pytest.raises(ValueError, match="is not a Dynkin label of SU"):
        Representation(3, (1,))


@pytest.mark.parametrize(
    ("n", "factors", "parts"),
    [
        (2, "2 2", "1 3"),
        (2, "3 3", "1 3 5"),
        (3, "3 3", "-3 6"),
        (3, "3 -3", "1 8"),
        (3, "8 8", "1 8 8 10 -10 27"),
        (3, "3 3 3", "1 8 8 10"),
        (3, "6 3", "8 10"),
        (5, "5 5", "10 15"),
        (5, "10 10", "-5 -45 -50"),
        (5, "-5 10", "5 45"),
        (5, "24 24", "1 24 24 75 126 -126 200"),
        (4, "6 6", "1 15 20'"),
    ],
)
def test_products(n: int, factors: str, parts: str) -> None:
    found = decompose(n, [label_of(n, text) for text in factors.split()])
    dimensions = sorted(Representation(n, label).dimension for label, times in found.items() for _ in range(times))
    assert dimensions == sorted(abs(int(text.rstrip("'"))) for text in parts.split())
    for text in parts.split():
        if not {"45", "50", "126"} & {text.strip("-")}:
            assert label_of(n, text) in found


@pytest.mark.parametrize(
    ("n", "factors", "count"),
    [
        (2, "2 2 2 2", 2),
        (2, "2 2 3", 1),
        (2, "4 4 4 4", 4),
        (2, "2 2 2", 0),
        (3, "3 3 3", 1),
        (3, "8 8 8", 2),
        (3, "8 8 8 8", 8),
        (3, "3 -3 8 8", 3),
        (3, "6 -3 -3", 1),
        (5, "10 10 5", 1),
        (5, "10 -5 -5", 1),
        (5, "24 24 24 24", 9),
        (6, "15 15 15", 1),
    ],
)
def test_the_number_of_singlets_equals_that_of_tensors(n: int, factors: str, count: int) -> None:
    labels = [label_of(n, text) for text in factors.split()]
    assert singlets(n, labels) == count
    if n < 5 or len(labels) < 4:
        legs = tuple(SpecialUnitaryLeg(label) for label in labels)
        assert len(exact_tensors(n, legs)) == count
        _assert_invariant(n, legs)


@pytest.mark.parametrize(
    ("n", "legs"),
    [
        (2, (((1,), False), ((1,), True))),
        (2, (((2,), True), ((1,), False), ((1,), False))),
        (3, (((1, 0), False), ((1, 0), True), ((1, 1), False), ((1, 1), True))),
        (3, (((2, 0), True), ((1, 0), False), ((1, 0), False))),
        (3, (((2, 1), True), ((1, 1), False), ((1, 0), False))),
        (4, (((0, 1, 0), False), ((1, 0, 0), True), ((1, 0, 0), True))),
    ],
)
def test_invariants_with_conjugated_legs(n: int, legs: tuple[tuple[tuple[int, ...], bool], ...]) -> None:
    _assert_invariant(n, tuple(SpecialUnitaryLeg(*leg) for leg in legs))


def _assert_invariant(n: int, legs: tuple[SpecialUnitaryLeg, ...]) -> None:
    """Check that all Hermitian generators annihilate the tensors, and that the tensors are independent."""
    shape = [Representation(n, leg.label).dimension for leg in legs]
    found: list[np.ndarray] = []
    for tensor in tensors(n, legs):
        dense = np.zeros(shape)
        dense[tuple(tensor.index_NL.T)] = tensor.value_N
        assert np.abs(dense).max() == pytest.approx(1)
        for a in range(n * n - 1):
            change = np.zeros(shape, complex)
            for i, leg in enumerate(legs):
                matrix = hermitian(n, leg.label)[a]
                acts = -matrix.T if leg.conjugate else matrix
                change += np.moveaxis(np.tensordot(dense, acts, (i, 0)), -1, i)
            assert np.abs(change).max() < 1e-9
        found.append(dense.reshape(-1))
    assert not found or np.linalg.matrix_rank(np.array(found)) == len(found)


def test_two_doublets_and_three_triplets_contract_with_epsilon() -> None:
    (epsilon,) = tensors(2, (SpecialUnitaryLeg((1,)), SpecialUnitaryLeg((1,))))
    assert epsilon.index_NL.tolist() == [[0, 1], [1, 0]]
    assert epsilon.value_N.tolist() == [1, -1]
    (levi,) = tensors(3, (SpecialUnitaryLeg((1, 0)),) * 3)
    assert dict(zip(map(tuple, levi.index_NL.tolist()), levi.value_N.tolist(), strict=True)) == {
        (0, 1, 2): 1,
        (0, 2, 1): -1,
        (1, 0, 2): -1,
        (1, 2, 0): 1,
        (2, 0, 1): 1,
        (2, 1, 0): -1,
    }


def test_generators_of_the_fundamental_are_those_of_pauli_and_gell_mann() -> None:
    pauli = np.array([[[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]]) / 2
    assert np.allclose(hermitian(2, (1,)), pauli)
    assert np.allclose(cartan(3, (1, 0)), [[0.5, -0.5, 0], [1 / 12**0.5, 1 / 12**0.5, -2 / 12**0.5]])


@pytest.mark.parametrize(("n", "label"), [(2, (3,)), (3, (0, 1)), (3, (2, 1)), (4, (0, 1, 0)), (5, (1, 0, 0, 1))])
def test_generators_satisfy_the_algebra_of_the_fundamental(n: int, label: tuple[int, ...]) -> None:
    def structure(which: tuple[int, ...]) -> np.ndarray:
        matrices = hermitian(n, which)
        both = np.einsum("aij,bjk->abik", matrices, matrices)
        return np.einsum("abij,cji->abc", both - both.transpose(1, 0, 2, 3), matrices) / float(
            Representation(n, which).index
        )

    matrices = hermitian(n, label)
    trace = np.einsum("aij,bji->ab", matrices, matrices)
    assert np.allclose(trace, float(Representation(n, label).index) * np.eye(n * n - 1))
    assert np.allclose(matrices, matrices.conj().transpose(0, 2, 1))
    assert np.allclose(structure(label), structure((1, *(0,) * (n - 2))))


def test_exact_matrices_satisfy_the_commutation_relations() -> None:
    """[E_k, F_l] = δ_kl H_k holds exactly."""
    adjoint = module(3, (1, 1))
    for k in range(2):
        for m in range(2):
            for state in range(adjoint.dimension):
                got: dict[int, Fraction] = {}
                for one, other, sign in (
                    (adjoint.lowering[m], adjoint.raising[k], 1),
                    (adjoint.raising[k], adjoint.lowering[m], -1),
                ):
                    for middle, a in one[state]:
                        for row, b in other[middle]:
                            got[row] = got.get(row, Fraction(0)) + sign * a * b
                want = {state: Fraction(adjoint.weights[state][k])} if k == m and adjoint.weights[state][k] else {}
                assert {row: value for row, value in got.items() if value} == want
