"""Exact generators of SU(n) in any representation.

In the unnormalised Gelfand-Tsetlin basis all matrix elements are rational (Molev, math/0211289):
with l_ki = λ_ki - i + 1,

    E_{k,k+1} ξ_Λ = -Σ_i Π_j (l_ki - l_{k+1,j}) / Π_{j≠i} (l_ki - l_kj) ξ_{Λ+δ_ki}
    E_{k+1,k} ξ_Λ =  Σ_i Π_j (l_ki - l_{k-1,j}) / Π_{j≠i} (l_ki - l_kj) ξ_{Λ-δ_ki}

The squared norms of the ξ_Λ are rational as well; their square roots give an orthonormal basis.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from steelyard.domains.theories.groups.representation import Label, Pattern, cached

Column = tuple[tuple[int, Fraction], ...]
"""Non-zero entries of one matrix column as (row, value)."""
Matrix = tuple[Column, ...]


@dataclass(frozen=True)
class Module:
    """A representation as matrices: raising and lowering operators of the n - 1 simple roots in a weight basis."""

    weights: tuple[Label, ...]
    raising: tuple[Matrix, ...]
    lowering: tuple[Matrix, ...]
    norms: tuple[Fraction, ...]
    """Squared norm of each basis vector."""

    @property
    def dimension(self) -> int:
        return len(self.weights)

    @cached_property
    def highest_state(self) -> int:
        """Index of the highest-weight state, which every raising operator annihilates."""
        return next(i for i in range(self.dimension) if not any(matrix[i] for matrix in self.raising))

    @cached_property
    def dual(self) -> Module:
        """The dual representation in the dual basis, where X acts as -Xᵀ."""
        return Module(
            tuple(tuple(-w for w in weight) for weight in self.weights),
            tuple(map(_minus_transpose, self.raising)),
            tuple(map(_minus_transpose, self.lowering)),
            tuple(1 / norm for norm in self.norms),
        )


@lru_cache(maxsize=512)
def module(n: int, label: Label, *, dual: bool = False) -> Module:
    """Return the matrices of a representation or of its dual."""
    if dual:
        return module(n, label).dual
    irrep = cached(n, label)
    states = {pattern: i for i, pattern in enumerate(irrep.patterns)}
    raising = tuple(tuple(_apply_step(pattern, states, k, 1) for pattern in states) for k in range(1, n))
    lowering = tuple(tuple(_apply_step(pattern, states, k, -1) for pattern in states) for k in range(1, n))
    return Module(irrep.weights, raising, lowering, _norms(raising, lowering))


@lru_cache(maxsize=256)
def hermitian(n: int, label: Label) -> NDArray[np.complex128]:
    """Return the n² - 1 Hermitian generators [a, row, column] in the orthonormal basis, with tr T_a T_b = T δ_ab."""
    units = matrix_units(n, label)
    found: list[NDArray[np.complex128]] = []
    for i in range(n):
        for j in range(i + 1, n):
            found += [(units[i, j] + units[j, i]) / 2, (units[i, j] - units[j, i]) / 2j]
    simple = [units[k, k + 1] @ units[k + 1, k] - units[k + 1, k] @ units[k, k + 1] for k in range(n - 1)]
    for k in range(1, n):  # diag(1, …, 1, -k, 0, …) / √(2k(k + 1)) = Σ m H_m / √(2k(k + 1))
        found.append(sum(m * simple[m - 1] for m in range(1, k + 1)) / np.sqrt(2 * k * (k + 1)))
    return np.array(found, np.complex128)


def cartan(n: int, label: Label) -> NDArray[np.float64]:
    """Return the diagonals of the Cartan generators of :func:`hermitian`, as an array [n - 1, state]."""
    size = n * (n - 1)
    return np.array([matrix.diagonal().real for matrix in hermitian(n, label)[size:]]).reshape(n - 1, -1)


@lru_cache(maxsize=256)
def matrix_units(n: int, label: Label) -> dict[tuple[int, int], NDArray[np.float64]]:
    """Return E_ij for i ≠ j in the orthonormal basis, built from E_{i,i+1} by commutators."""
    exact = module(n, label)
    size_D = np.sqrt(np.array([float(norm) for norm in exact.norms]))
    units: dict[tuple[int, int], NDArray[np.float64]] = {}
    for k in range(n - 1):
        units[k, k + 1] = _dense(exact.raising[k], size_D)
        units[k + 1, k] = _dense(exact.lowering[k], size_D)
    for step in range(2, n):
        for i in range(n - step):
            j = i + step
            units[i, j] = units[i, j - 1] @ units[j - 1, j] - units[j - 1, j] @ units[i, j - 1]
            units[j, i] = units[j, j - 1] @ units[j - 1, i] - units[j - 1, i] @ units[j, j - 1]
    return units


def _dense(matrix: Matrix, size_D: NDArray[np.float64]) -> NDArray[np.float64]:
    dense_DD = np.zeros((len(matrix), len(matrix)))
    for column, entries in enumerate(matrix):
        for row, value in entries:
            dense_DD[row, column] = float(value) * size_D[row] / size_D[column]
    return dense_DD


def _apply_step(pattern: Pattern, states: dict[Pattern, int], k: int, step: int) -> Column:
    """Apply E_{k,k+1} (``step`` = 1) or E_{k+1,k} (``step`` = -1) to a basis state."""
    n = len(pattern)
    row = pattern[n - k]
    lengths = [value - i for i, value in enumerate(row)]
    neighbour = pattern[n - k - 1] if step > 0 else (pattern[n - k + 1] if k > 1 else ())
    around = [value - i for i, value in enumerate(neighbour)]
    entries: list[tuple[int, Fraction]] = []
    for i, length in enumerate(lengths):
        reached = (*pattern[: n - k], (*row[:i], row[i] + step, *row[i + 1 :]), *pattern[n - k + 1 :])
        if reached in states:
            above = prod(length - other for other in around)
            below = prod(length - other for j, other in enumerate(lengths) if j != i)
            entries.append((states[reached], Fraction(-step * above, below)))
    return tuple(entries)


def _norms(raising: tuple[Matrix, ...], lowering: tuple[Matrix, ...]) -> tuple[Fraction, ...]:
    """Compute squared norms. E is the adjoint of F, so E ξ = a ξ′ + … and F ξ′ = b ξ + … imply a |ξ′|² = b |ξ|²."""
    norms: dict[int, Fraction] = {0: Fraction(1)}
    waiting = [0]
    while waiting:
        state = waiting.pop()
        for up, down in zip(raising, lowering, strict=True):
            for lower, b in down[state]:
                if lower not in norms:
                    norms[lower] = norms[state] * dict(up[lower])[state] / b
                    waiting.append(lower)
    return tuple(norms[i] for i in range(len(norms)))


def _minus_transpose(matrix: Matrix) -> Matrix:
    columns: list[list[tuple[int, Fraction]]] = [[] for _ in matrix]
    for column, entries in enumerate(matrix):
        for row, value in entries:
            columns[row].append((column, -value))
    return tuple(map(tuple, columns))
