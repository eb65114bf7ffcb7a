"""Mass eigenstates by multiplet. Only multiplets with the same unbroken quantum numbers mix.

A multiplet and its conjugate share one mass matrix, so their masses are exactly equal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from steelyard.domains.theories.model.theory import Theory
from steelyard.domains.theories.physics.highest_weights import (
    NO_HIGHEST_WEIGHTS,
    HighestWeights,
    MultipletKey,
    highest_weights,
)
from steelyard.domains.theories.physics.mass_matrices import NOISE, Array, MassMatrix, fermion_matrix, goldstones
from steelyard.domains.theories.physics.singular_values import singular_values
from steelyard.domains.theories.physics.vacuum import UnbrokenGroup

RANK = 1e-6
"""Singular values below this fraction of the largest count as 0."""


class MassEigenstate(NamedTuple):
    """A multiplet of mass eigenstates."""

    key: MultipletKey
    mass: float
    shares: dict[str, float]
    origin: int = 0
    """Bit mask of the terms that contribute to the mass."""


def fermion_eigenstates(theory: Theory, residual: UnbrokenGroup) -> Iterator[MassEigenstate]:
    """Yield left-handed fermion multiplets. The mass matrix pairs highest weights with conjugate lowest weights."""
    basis, matrix_SS, origin_SS = fermion_matrix(theory)
    lowest = highest_weights(theory, residual, basis, conjugate=True)
    for key, rows in _without_conjugates(highest_weights(theory, residual, basis)):
        columns = lowest.get(key, NO_HIGHEST_WEIGHTS)
        matrix_RC = _matrix_between(rows, matrix_SS, columns)
        sides = [(key, rows), (key.conjugate, columns)][: 1 + (key != key.conjugate)]
        for block_rows, block_columns in _connected_blocks(matrix_RC):
            if not (block_rows and block_columns):
                for (side, states), chosen in zip(sides, (block_rows, block_columns), strict=False):
                    yield from _massless(theory, side, states, chosen)
                continue
            vector_OO, mass_K, vector_XX = singular_values(matrix_RC[np.ix_(block_rows, block_columns)])
            at = np.ix_(rows.basis_states(block_rows), columns.basis_states(block_columns))
            origin = int(np.bitwise_or.reduce(origin_SS[at], axis=None))
            vectors_by_side = (block_rows, vector_OO.T), (block_columns, vector_XX)
            for (side, states), (chosen, vectors) in zip(sides, vectors_by_side, strict=False):
                masses = [*mass_K.tolist(), *[0.0] * len(chosen)]
                for mass, vector_T in zip(masses, vectors, strict=False):
                    yield MassEigenstate(side, mass, states.shares(theory, chosen, vector_T), origin if mass else 0)


def scalar_eigenstates(theory: Theory, residual: UnbrokenGroup, matrix: MassMatrix) -> Iterator[MassEigenstate]:
    """Yield scalar multiplets and their conjugates, without Goldstone modes."""
    basis, matrix_SS, origin_SS = matrix
    gauge_SG = goldstones(theory, basis) if theory.vevs else np.zeros((len(basis), 0))
    for key, weights in _without_conjugates(highest_weights(theory, residual, basis)):
        matrix_TT = _matrix_between(weights, matrix_SS, weights)
        gauge_TG = _product(weights.part_PT.T, gauge_SG[weights.indices])
        mixing_TT = np.abs(matrix_TT) + np.abs(gauge_TG) @ np.abs(gauge_TG).T
        mixing_TT += np.diag(mixing_TT.any(axis=1))  # gives each block's rows and columns the same states
        sides = dict.fromkeys((key, key.conjugate))
        for block_rows, block_columns in _connected_blocks(mixing_TT):
            if not (block_rows and block_columns):
                for side in sides:
                    yield from _massless(theory, side, weights, block_rows)
                continue
            block_TT = matrix_TT[np.ix_(block_rows, block_rows)]
            indices = weights.basis_states(block_rows)
            origin = int(np.bitwise_or.reduce(origin_SS[np.ix_(indices, indices)], axis=None))
            free_TF = _physical_directions(gauge_TG[block_rows], [weights.fields[top] for top in block_rows])
            squared_F, vector_FF = np.linalg.eigh(free_TF.T @ block_TT @ free_TF)
            noise = NOISE * np.abs(block_TT).max(initial=0.0)
            for squared, vector_T in zip(squared_F.tolist(), (free_TF @ vector_FF).T, strict=True):
                mass = 0.0 if abs(squared) < noise else float(np.sign(squared) * np.sqrt(abs(squared)))
                shares = weights.shares(theory, block_rows, vector_T)
                for side in sides:
                    yield MassEigenstate(side, mass, shares, origin if mass else 0)


def _massless(
    theory: Theory, key: MultipletKey, weights: HighestWeights, chosen: Sequence[int]
) -> Iterator[MassEigenstate]:
    for top in chosen:
        yield MassEigenstate(key, 0.0, {theory.fields[weights.fields[top]].name: 1.0})


def _without_conjugates(
    weights: Mapping[MultipletKey, HighestWeights],
) -> Iterator[tuple[MultipletKey, HighestWeights]]:
    """Yield the first key of each conjugate pair, with its states."""
    seen: set[MultipletKey] = set()
    for key, states in weights.items():
        if key.conjugate not in seen:
            seen.add(key)
            yield key, states


def _matrix_between(rows: HighestWeights, matrix_SS: Array, columns: HighestWeights) -> Array:
    """Return the entries of an invariant matrix between highest-weight states."""
    return _product(_product(rows.part_PT.T, matrix_SS[np.ix_(rows.indices, columns.indices)]), columns.part_PT)


def _product(one_AB: Array, two_BC: Array) -> Array:
    """Multiply matrices and zero out entries that cancel to within rounding error."""
    product_AC = one_AB @ two_BC
    product_AC[np.abs(product_AC) <= NOISE * (np.abs(one_AB) @ np.abs(two_BC))] = 0.0
    return product_AC


def _connected_blocks(matrix_RC: Array) -> Iterator[tuple[list[int], list[int]]]:
    """Split a matrix into its connected blocks and yield their row and column indices.

    States that do not mix are kept apart. All zero rows form one block without columns, and all zero columns one
    without rows.
    """
    row_E, column_E = (place.tolist() for place in matrix_RC.nonzero())
    by_row: dict[int, set[int]] = defaultdict(set)
    by_column: dict[int, set[int]] = defaultdict(set)
    for row, column in zip(row_E, column_E, strict=True):
        by_row[row].add(column)
        by_column[column].add(row)
    if len(by_row) < matrix_RC.shape[0]:
        yield [row for row in range(matrix_RC.shape[0]) if row not in by_row], []
    if len(by_column) < matrix_RC.shape[1]:
        yield [], [column for column in range(matrix_RC.shape[1]) if column not in by_column]
    while by_row:
        new_rows, block_rows, block_columns = {next(iter(by_row))}, set[int](), set[int]()
        while new_rows:
            block_rows |= new_rows
            new_columns = {column for row in new_rows for column in by_row[row]}
            block_columns |= new_columns
            new_rows = {row for column in new_columns for row in by_column[column]} - block_rows
        for row in block_rows:
            del by_row[row]
        yield sorted(block_rows), sorted(block_columns)


def _physical_directions(gauge_RG: Array, fields: Sequence[int]) -> Array:
    """Return the directions orthogonal to all Goldstone modes, as columns.

    Fields are processed in order of decreasing vacuum expectation value, so that small values are not lost to rounding
    next to large ones.
    """
    place = np.array(fields)
    eaten_RE = np.zeros((len(fields), 0))
    free_GK = np.eye(gauge_RG.shape[1])
    size = {field: np.abs(gauge_RG[place == field]).max(initial=0.0) for field in dict.fromkeys(fields)}
    for field in sorted(size, key=lambda field: -size[field]):
        if size[field] == 0:
            break
        _, size_K, v_KK = np.linalg.svd(gauge_RG[place == field] @ free_GK)
        rank = int((size_K > RANK * size[field]).sum())
        turned_RE = gauge_RG @ free_GK @ v_KK[:rank].T
        eaten_RE = np.hstack([eaten_RE, np.linalg.qr(turned_RE)[0]])
        free_GK = free_GK @ v_KK[rank:].T
    return np.linalg.svd(eaten_RE)[0][:, eaten_RE.shape[1] :]
