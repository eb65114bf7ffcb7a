"""Singular values to nearly full relative precision, for matrices whose entries span many powers of ten.

A seesaw matrix ((0, m), (m, M)) has the singular values M and m²/M. With M = 10¹⁴, the second is far below the rounding
error of the first, which limits LAPACK's SVD. Gaussian elimination with complete pivoting finds the second value as the
Schur complement 0 - m · m / M, and gives A = X D Yᵀ with well-conditioned X and Y. QR and one-sided Jacobi rotations of
these factors yield every singular value with a relative error close to that of the entries (Demmel et al., "Computing
the singular value decomposition with high relative accuracy", 1999).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ROUNDING = 1e-14
"""Assumed relative error of an entry. Differences within the error count as 0."""
COMPARABLE = 1e-3
"""LAPACK computes singular values within this factor of the largest precisely enough."""
SMALLEST = 1e-140
"""Singular values below this fraction of the largest count as 0, so that squares do not underflow."""
ORTHOGONAL = 1e-14
"""Vectors count as orthogonal if the cosine of the angle between them is below this value."""
SWEEPS = 40
"""Maximum number of Jacobi sweeps. Convergence is quadratic and takes about six sweeps."""


def singular_values(matrix_RC: Array) -> tuple[Array, Array, Array]:
    """Return left vectors as columns, singular values in descending order and right vectors as rows.

    The result has the layout of ``numpy.linalg.svd`` with complete bases.
    """
    left_RR, value_K, right_CC = np.linalg.svd(matrix_RC)
    if value_K.min(initial=np.inf) >= COMPARABLE * value_K.max(initial=0.0):
        return left_RR, value_K, right_CC
    x_RD, pivot_D, y_CD = _factors(matrix_RC, int((value_K > ROUNDING * value_K.max()).sum()))
    q_RD, r_DD = np.linalg.qr(x_RD * pivot_D)
    right_CD, found_D, turn_DD = _rotated(y_CD @ r_DD.T)
    order_D = np.argsort(-found_D)
    value_K = np.zeros_like(value_K)
    value_K[: len(found_D)] = found_D[order_D]
    return _completed((q_RD @ turn_DD)[:, order_D]), value_K, _completed(right_CD[:, order_D]).T


def _factors(matrix_RC: Array, certain: int) -> tuple[Array, Array, Array]:
    """Factor A = Σ d x yᵀ by Gaussian elimination with complete pivoting; the entries of x and y are at most 1.

    Errors of the entries are propagated to first order, and remainders within their error are set to 0. The first
    ``certain`` pivots are known to exceed all errors.
    """
    rest_RC, error_RC, largest = matrix_RC.copy(), ROUNDING * np.abs(matrix_RC), np.abs(matrix_RC).max()
    found: list[tuple[Array, float, Array]] = []
    while len(found) < min(matrix_RC.shape):
        if len(found) >= certain:
            rest_RC[np.abs(rest_RC) <= error_RC] = 0.0
        row, column = np.unravel_index(np.abs(rest_RC).argmax(), rest_RC.shape)
        pivot = float(rest_RC[row, column])
        if abs(pivot) <= SMALLEST * largest:
            break
        x_R, y_C = np.true_divide(rest_RC[:, column], pivot), np.true_divide(rest_RC[row], pivot)
        error_RC += np.outer(np.abs(x_R), error_RC[row] + error_RC[row, column] * np.abs(y_C))
        error_RC += np.outer(error_RC[:, column], np.abs(y_C))
        rest_RC -= pivot * np.outer(x_R, y_C)
        for own in (rest_RC, error_RC):
            own[row], own[:, column] = 0.0, 0.0
        found.append((x_R, pivot, y_C))
    x_D, pivot_D, y_D = zip(*found, strict=True)
    return np.stack(x_D, axis=1), np.array(pivot_D), np.stack(y_D, axis=1)


def _rotated(column_CD: Array) -> tuple[Array, Array, Array]:
    """Orthogonalise columns with Jacobi rotations; return unit columns, their lengths and the accumulated rotation."""
    vector_DC, turn_DD = column_CD.T.copy(), np.eye(column_CD.shape[1])
    for _ in range(SWEEPS):
        if not sum(_rotate(vector_DC, turn_DD, p, q) for q in range(len(vector_DC)) for p in range(q)):
            break
    length_D = np.sqrt((vector_DC**2).sum(axis=1))
    return (vector_DC / length_D[:, None]).T, length_D, turn_DD.T


def _rotate(vector_DC: Array, turn_DD: Array, p: int, q: int) -> bool:
    """Make rows p and q orthogonal; return whether a rotation was needed."""
    one, other = vector_DC[p], vector_DC[q]
    squared_p, squared_q, product = float(one @ one), float(other @ other), float(one @ other)
    if abs(product) <= ORTHOGONAL * math.sqrt(squared_p) * math.sqrt(squared_q):
        return False
    cotangent = (squared_q - squared_p) / (2 * product)
    tangent = math.copysign(1.0, cotangent) / (abs(cotangent) + math.hypot(1.0, cotangent))
    cosine = 1 / math.hypot(1.0, tangent)
    for own in (vector_DC, turn_DD):
        own[p], own[q] = cosine * (own[p] - tangent * own[q]), cosine * (own[q] + tangent * own[p])
    return True


def _completed(vector_RD: Array) -> Array:
    """Extend orthonormal columns to a complete basis."""
    return np.hstack([vector_RD, np.linalg.svd(vector_RD)[0][:, vector_RD.shape[1] :]])
