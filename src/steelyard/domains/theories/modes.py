"""Mass eigenstates, charge by charge: states mix with those of the same unbroken charges only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from steelyard.domains.theories.groups.representation import Label
from steelyard.domains.theories.mass_matrices import NOISE, Array, Matrix, Slot, fermion_matrix, goldstones
from steelyard.domains.theories.theory import Gauge, Theory
from steelyard.domains.theories.vacuum import Unbroken, states

RANK = 1e-6
"""Lengths below this part of the largest are 0."""


class Key(NamedTuple):
    """What tells unbroken states apart: their charges, and their weights under every unbroken SU(k)."""

    charges: tuple[Fraction, ...]
    weights: tuple[Label, ...]

    @property
    def conjugate(self) -> Key:
        return Key(tuple(-q for q in self.charges), tuple(tuple(-w for w in weight) for weight in self.weights))


class Mode(NamedTuple):
    """One mass eigenstate: a single component of what may be a multiplet."""

    key: Key
    mass: float
    shares: dict[str, float]


def fermion_modes(theory: Theory, left: Unbroken) -> Iterator[Mode]:
    """Left-handed states: a massive one with charges comes with its conjugate, a massless one may come alone."""
    slots, matrix_SS = fermion_matrix(theory)
    groups = _by_key(theory, left, slots)
    for key, rows in groups.items():
        columns = groups.get(key.conjugate, [])
        if key < key.conjugate and columns:
            continue
        u_RR, mass_K, v_CC = np.linalg.svd(matrix_SS[np.ix_(rows, columns)])
        mass_K[mass_K < NOISE * mass_K.max(initial=0.0)] = 0.0
        masses = [*mass_K.tolist(), *[0.0] * max(len(rows), len(columns))]
        for i in range(len(rows)):
            yield Mode(key, masses[i], _shares(theory, slots, rows, u_RR[:, i]))
        if key != key.conjugate:
            for i in range(len(columns)):
                yield Mode(key.conjugate, masses[i], _shares(theory, slots, columns, v_CC[i]))


def scalar_modes(theory: Theory, left: Unbroken, matrix: Matrix) -> Iterator[Mode]:
    """Scalars and their conjugates, without Goldstone modes."""
    slots, matrix_SS = matrix
    gauge_SG = goldstones(theory, slots) if theory.vevs else np.zeros((len(slots), 0))
    for key, rows in _by_key(theory, left, slots).items():
        turned_RG = gauge_SG[rows]
        turned_RG = turned_RG[:, np.abs(turned_RG).max(axis=0, initial=0.0) > 0]
        u_RR, size_K, _ = np.linalg.svd(turned_RG)
        eaten = int((size_K > RANK * size_K.max(initial=0.0)).sum())
        free_RF = u_RR[:, eaten:]
        squared_F, vector_FF = np.linalg.eigh(free_RF.T @ matrix_SS[np.ix_(rows, rows)] @ free_RF)
        noise = NOISE * np.abs(matrix_SS[rows]).max(initial=0.0)
        for squared, vector_R in zip(squared_F.tolist(), (free_RF @ vector_FF).T, strict=True):
            mass = 0.0 if abs(squared) < noise else float(np.sign(squared) * np.sqrt(abs(squared)))
            yield Mode(key, mass, _shares(theory, slots, rows, vector_R))


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
