"""Mass eigenstates, charge by charge: states mix with those of the same unbroken charges only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from steelyard.domains.theories.groups.representation import Label
from steelyard.domains.theories.mass_matrices import NOISE, Array, Matrix, Slot, fermion_matrix, goldstones
from steelyard.domains.theories.theory import Gauge, Theory
from steelyard.domains.theories.vacuum import Unbroken, states

RANK = 1e-6
"""Lengths below this part of the largest are 0."""


@dataclass(frozen=True, eq=False)
class Key:
    """What tells unbroken states apart: their charges, and their weights under every unbroken SU(k)."""

    charges: tuple[Fraction, ...]
    weights: tuple[Label, ...]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Key) and self._sides == other._sides)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def conjugate(self) -> Key:
        return Key(tuple(-q for q in self.charges), tuple(tuple(-w for w in weight) for weight in self.weights))

    @cached_property
    def is_dominant(self) -> bool:
        """Whether no weight is negative: one state in every orbit of the Weyl group is enough to know a multiplet."""
        return all(w >= 0 for weight in self.weights for w in weight)

    @cached_property
    def _sides(self) -> tuple[tuple[Fraction, ...], tuple[Label, ...]]:
        return self.charges, self.weights

    @cached_property
    def _hash(self) -> int:
        return hash(self._sides)


class Mode(NamedTuple):
    """One mass eigenstate: a single component of what may be a multiplet."""

    key: Key
    mass: float
    shares: dict[str, float]
    origin: int = 0
    """The terms that the mass comes from, a bit for each."""


def fermion_modes(theory: Theory, left: Unbroken) -> Iterator[Mode]:
    """Left-handed states of dominant weight."""
    slots, matrix_SS, origin_SS = fermion_matrix(theory)
    groups = _by_key(theory, left, slots)
    for key, own in groups.items():
        if not key.is_dominant:
            continue
        for rows, columns in _joined(own, groups.get(key.conjugate, []), matrix_SS):
            if not columns:
                yield from _massless(theory, slots, key, rows)
                continue
            at = np.ix_(rows, columns)
            u_RR, mass_K, _ = np.linalg.svd(matrix_SS[at])
            origin = int(np.bitwise_or.reduce(origin_SS[at], axis=None))
            mass_K[mass_K < NOISE * mass_K.max()] = 0.0
            masses = [*mass_K.tolist(), *[0.0] * len(rows)]
            for i in range(len(rows)):
                yield Mode(key, masses[i], _shares(theory, slots, rows, u_RR[:, i]), origin if masses[i] else 0)


def scalar_modes(theory: Theory, left: Unbroken, matrix: Matrix) -> Iterator[Mode]:
    """Scalars and their conjugates of dominant weight, without Goldstone modes."""
    slots, matrix_SS, origin_SS = matrix
    gauge_SG = goldstones(theory, slots) if theory.vevs else np.zeros((len(slots), 0))
    mixing_SS = np.abs(matrix_SS) + np.abs(gauge_SG) @ np.abs(gauge_SG).T
    mixing_SS += np.diag(mixing_SS.any(axis=1))  # rows and columns of a part are the same states
    for key, own in _by_key(theory, left, slots).items():
        if not key.is_dominant:
            continue
        for rows, columns in _joined(own, own, mixing_SS):
            if not columns:
                yield from _massless(theory, slots, key, rows)
                continue
            at = np.ix_(rows, rows)
            block_RR = matrix_SS[at]
            origin = int(np.bitwise_or.reduce(origin_SS[at], axis=None))
            free_RF = _physical(gauge_SG[rows], [slots[row].field for row in rows])
            squared_F, vector_FF = np.linalg.eigh(free_RF.T @ block_RR @ free_RF)
            noise = NOISE * np.abs(block_RR).max(initial=0.0)
            for squared, vector_R in zip(squared_F.tolist(), (free_RF @ vector_FF).T, strict=True):
                mass = 0.0 if abs(squared) < noise else float(np.sign(squared) * np.sqrt(abs(squared)))
                yield Mode(key, mass, _shares(theory, slots, rows, vector_R), origin if mass else 0)


def _massless(theory: Theory, slots: Sequence[Slot], key: Key, rows: Sequence[int]) -> Iterator[Mode]:
    for row in rows:
        yield Mode(key, 0.0, {theory.fields[slots[row].field].name: 1.0})


def _joined(rows: list[int], columns: list[int], matrix_SS: Array) -> Iterator[tuple[list[int], list[int]]]:
    """The rows and columns of a block that entries connect: what does not mix is kept apart, however large. Rows of
    zeros come together, without columns.
    """
    filled_RC = matrix_SS[np.ix_(rows, columns)] != 0
    row_E, column_E = (place.tolist() for place in filled_RC.nonzero())
    by_row: dict[int, set[int]] = defaultdict(set)
    by_column: dict[int, set[int]] = defaultdict(set)
    for row, column in zip(row_E, column_E, strict=True):
        by_row[row].add(column)
        by_column[column].add(row)
    if len(by_row) < len(rows):
        yield [row for place, row in enumerate(rows) if place not in by_row], []
    while by_row:
        reached, own_rows, own_columns = {next(iter(by_row))}, set[int](), set[int]()
        while reached:
            own_rows |= reached
            found = {column for row in reached for column in by_row[row]}
            own_columns |= found
            reached = {row for column in found for row in by_column[column]} - own_rows
        for row in own_rows:
            del by_row[row]
        yield [rows[i] for i in sorted(own_rows)], [columns[i] for i in sorted(own_columns)]


def _physical(gauge_RG: Array, fields: Sequence[int]) -> Array:
    """The directions orthogonal to all Goldstone modes, as columns.

    Fields break the symmetry one after the other, that with the largest vacuum expectation value first, so that a
    small one is not lost beside a large one.
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


def _by_key(theory: Theory, left: Unbroken, slots: Sequence[Slot]) -> dict[Key, list[int]]:
    groups: dict[Key, list[int]] = defaultdict(list)
    keys = [_keys(theory.gauge, field.labels, field.charges, left) for field in theory.fields]
    for number, (field, component, conjugate) in enumerate(slots):
        groups[keys[field][component][conjugate]].append(number)
    return groups


@lru_cache(maxsize=4096)
def _keys(gauge: Gauge, labels: tuple[Label, ...], charges: tuple[Fraction, ...], left: Unbroken) -> list[list[Key]]:
    """Of each component, and of its conjugate."""
    found: list[list[Key]] = []
    for weights in states(gauge, labels):
        own = Key(
            tuple(charge.of(charges, weights) for charge in left.charges),
            tuple(block.weight(weights) for block in left.blocks),
        )
        found.append([own, own.conjugate])
    return found


def _shares(theory: Theory, slots: Sequence[Slot], rows: Sequence[int], vector_R: Array) -> dict[str, float]:
    shares: dict[str, float] = defaultdict(float)
    for row, part in zip(rows, (vector_R**2).tolist(), strict=True):
        shares[theory.fields[slots[row].field].name] += part
    return shares
