"""Singular values spanning many powers of ten, compared with exact determinants and closed forms."""

from __future__ import annotations

from fractions import Fraction
from math import prod, sqrt

import numpy as np
import pytest

from steelyard.domains.theories.physics.singular_values import Array, singular_values


def determinant(matrix_RC: Array) -> Fraction:
    """Compute the exact determinant by elimination in fractions."""
    rows = [[Fraction(value) for value in row] for row in matrix_RC.tolist()]
    total = Fraction(1)
    while rows:
        pivot = next((row for row in rows if row[0]), None)
        if pivot is None:
            return Fraction(0)
        total *= pivot[0] * (-1) ** rows.index(pivot)
        rest = [row for row in rows if row is not pivot]
        rows = [[a - row[0] / pivot[0] * b for a, b in zip(row[1:], pivot[1:], strict=True)] for row in rest]
    return total


def graded(seed: int) -> Array:
    """Return a random sparse matrix whose rows and columns have scales from 10⁻⁸ to 10⁸."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 8))
    row_R, column_C = 10.0 ** rng.integers(-8, 8, (2, size))
    return row_R[:, None] * rng.normal(size=(size, size)) * (rng.random((size, size)) < 0.7) * column_C


def test_the_product_is_the_determinant() -> None:
    """The smallest singular value is as small as 10⁻³⁰ of the largest."""
    ranges: list[float] = []
    for seed in range(60):
        matrix_RC = graded(seed)
        _, value_K, _ = singular_values(matrix_RC)
        exact = abs(determinant(matrix_RC))
        found = prod(map(Fraction, value_K.tolist()))
        assert abs(found - exact) <= Fraction(1e-11) * exact
        assert value_K.tolist() == sorted(value_K.tolist(), reverse=True)
        ranges += [float(value_K[-1] / value_K[0])] if exact else []
    assert 0 < min(ranges) < 1e-25


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)])
def test_vectors_are_complete_bases(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    matrix_RC = rng.normal(size=shape) * 10.0 ** rng.integers(-9, 9, shape)
    left_RR, value_K, right_CC = singular_values(matrix_RC)
    assert left_RR @ left_RR.T == pytest.approx(np.eye(shape[0]), abs=1e-12)
    assert right_CC @ right_CC.T == pytest.approx(np.eye(shape[1]), abs=1e-12)
    back_RC = left_RR[:, : len(value_K)] * value_K @ right_CC[: len(value_K)]
    assert back_RC == pytest.approx(matrix_RC, abs=1e-12 * float(value_K[0]))


def test_cancellation_up_to_rounding_gives_zero() -> None:
    """The matrices have rank 1 in exact arithmetic, but 0.1 · 3 ≠ 0.3 and √2 · √2 ≠ 2 in floating point."""
    for rows in ([[1e16, 3e16], [0.1, 0.1 * 3]], [[2e14, sqrt(2)], [sqrt(2) * 1e14, 1.0]]):
        matrix_RC = np.array(rows)
        assert singular_values(matrix_RC)[1].tolist() == [pytest.approx(np.linalg.norm(matrix_RC)), 0.0]


def test_squares_do_not_underflow() -> None:
    """Values below 10⁻¹⁴⁰ of the largest are 0."""
    chain_RC = np.diag([1e16] * 11, 1) + np.diag([1e-9] * 12)
    assert singular_values(chain_RC)[1][-1] == 0.0
    assert singular_values(chain_RC[-4:, -4:])[1][-1] == pytest.approx(1e-9**4 / 1e16**3, rel=1e-12)
