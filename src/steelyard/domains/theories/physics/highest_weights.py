"""Highest-weight states of the unbroken group among the states of a theory.

Each multiplet has one highest-weight state. By Schur's lemma, an invariant matrix is determined by its entries between
these states.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from steelyard.domains.theories.groups.representation import Label
from steelyard.domains.theories.model.theory import GaugeGroup, Theory
from steelyard.domains.theories.physics.mass_matrices import Array, BasisState
from steelyard.domains.theories.physics.vacuum import UnbrokenGroup, Weights, root, root_operators, states

ANNIHILATED = 1e-9
"""Entries of raising operators below this threshold count as 0; nonzero entries are of order 1."""


@dataclass(frozen=True, eq=False)
class MultipletKey:
    """Quantum numbers of an unbroken multiplet: charges, and the highest weight under each unbroken SU(k)."""

    charges: tuple[Fraction, ...]
    labels: tuple[Label, ...]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, MultipletKey) and self._values == other._values)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def conjugate(self) -> MultipletKey:
        return MultipletKey(tuple(-q for q in self.charges), tuple(label[::-1] for label in self.labels))

    @cached_property
    def _values(self) -> tuple[tuple[Fraction, ...], tuple[Label, ...]]:
        return self.charges, self.labels

    @cached_property
    def _hash(self) -> int:
        return hash(self._values)


class HighestWeights(NamedTuple):
    """Highest-weight states with the same quantum numbers, as orthonormal columns over basis states."""

    indices: list[int]
    part_PT: Array
    fields: list[int]
    """Index of the field that each highest-weight state belongs to."""

    def basis_states(self, chosen: Sequence[int]) -> list[int]:
        """Return the basis states that contribute to the chosen highest-weight states."""
        return [self.indices[place] for place in np.flatnonzero(self.part_PT[:, chosen].any(axis=1)).tolist()]

    def shares(self, theory: Theory, chosen: Sequence[int], vector_T: Array) -> dict[str, float]:
        """Return the fraction contributed by each field to a linear combination of the chosen highest-weight states."""
        found: dict[str, float] = defaultdict(float)
        for top, part in zip(chosen, (vector_T**2).tolist(), strict=True):
            found[theory.fields[self.fields[top]].name] += part
        return found


NO_HIGHEST_WEIGHTS = HighestWeights([], np.zeros((0, 0)), [])
_FieldWeights = dict[MultipletKey, tuple[list[int], Array]]
"""Components of a field by key, with columns over these components."""


def highest_weights(
    theory: Theory, residual: UnbrokenGroup, basis: Sequence[BasisState], *, conjugate: bool = False
) -> dict[MultipletKey, HighestWeights]:
    """Return all highest-weight states by key; with ``conjugate``, those of the conjugate states (lowest weights)."""
    found: dict[MultipletKey, list[tuple[int, int, list[int], Array]]] = defaultdict(list)
    by_field = [_field_highest_weights(theory.gauge, field.labels, field.charges, residual) for field in theory.fields]
    for start, state in enumerate(basis):
        if state.component == 0:
            for key, columns in by_field[state.field][state.conjugate != conjugate].items():
                found[key].append((state.field, start, *columns))
    return {key: _combined(columns) for key, columns in found.items()}


def _combined(fields_columns: list[tuple[int, int, list[int], Array]]) -> HighestWeights:
    shape_NX = np.array([part_PT.shape for *_, part_PT in fields_columns])
    combined_PT = np.zeros(shape_NX.sum(axis=0))
    indices, fields = list[int](), list[int]()
    for number, start, components, part_PT in fields_columns:
        size, count = part_PT.shape
        combined_PT[len(indices) : len(indices) + size, len(fields) : len(fields) + count] = part_PT
        indices += [start + component for component in components]
        fields += [number] * count
    return HighestWeights(indices, combined_PT, fields)


@lru_cache(maxsize=4096)
def _field_highest_weights(
    gauge: GaugeGroup, labels: tuple[Label, ...], charges: tuple[Fraction, ...], residual: UnbrokenGroup
) -> tuple[_FieldWeights, _FieldWeights]:
    """Return the highest weights of a field and of its conjugate, on which E_ij acts as -E_ji."""
    weights_of = states(gauge, labels)
    by_weight: dict[tuple[tuple[Fraction, ...], tuple[Label, ...]], list[int]] = defaultdict(list)
    for component, weights in enumerate(weights_of):
        own_charges = tuple(charge.of(charges, weights) for charge in residual.charges)
        by_weight[own_charges, tuple(block.weight(weights) for block in residual.blocks)].append(component)
    steps = [(block.factor, *pair) for block in residual.blocks for pair in pairwise(block.indices)]
    both: tuple[_FieldWeights, _FieldWeights] = ({}, {})
    for (own_charges, weights), components in by_weight.items():
        for found, sign in zip(both, (1, -1), strict=True):
            signed = tuple(tuple(sign * w for w in weight) for weight in weights)
            if all(w >= 0 for weight in signed for w in weight):
                part_PT = _highest(gauge, labels, components, steps if sign > 0 else [(a, j, i) for a, i, j in steps])
                if part_PT.shape[1]:
                    found[MultipletKey(tuple(sign * q for q in own_charges), signed)] = components, part_PT
    return both


def _highest(
    gauge: GaugeGroup, labels: tuple[Label, ...], components: Sequence[int], steps: Sequence[tuple[int, int, int]]
) -> Array:
    """Return columns over components that every raising step E_ij annihilates.

    If all weights have multiplicity 1, a step from a dominant weight is nonzero exactly when the target weight exists.
    Only weights of higher multiplicity need linear algebra.
    """
    component_weights = states(gauge, labels)
    counts = _multiplicities(component_weights)
    target_PX = [
        [counts[_shifted(gauge, component_weights[component], step)] for step in steps] for component in components
    ]
    if not any(map(any, target_PX)):
        return np.eye(len(components))
    if max(counts.values()) == 1:
        return np.eye(len(components))[:, [not any(after) for after in target_PX]]
    operators = [root_operators(gauge, factor, labels)[i, j][:, components] for factor, i, j in steps]
    return _kernel(np.array(operators).reshape(-1, len(components)))


@lru_cache(maxsize=1024)
def _multiplicities(every: tuple[Weights, ...]) -> Counter[Weights]:
    return Counter(every)


def _shifted(gauge: GaugeGroup, weights: Weights, step: tuple[int, int, int]) -> Weights:
    """Return the weights after applying E_ij of a factor."""
    factor, i, j = step
    added = root(gauge.special[factor].n, i, j)
    shifted = tuple(w + a for w, a in zip(weights[factor], added, strict=True))
    return (*weights[:factor], shifted, *weights[factor + 1 :])


def _kernel(matrix_XP: Array) -> Array:
    """Return an orthonormal basis of the kernel of a matrix, with single basis states where possible."""
    moved_P = (np.abs(matrix_XP) > ANNIHILATED).any(axis=0)
    still_PT = np.eye(matrix_XP.shape[1])[:, ~moved_P]
    if not moved_P.any():
        return still_PT
    _, size_K, turned_KP = np.linalg.svd(matrix_XP[:, moved_P])
    rank = int((size_K > ANNIHILATED).sum())
    mixed_PT = np.zeros((matrix_XP.shape[1], len(turned_KP) - rank))
    mixed_PT[moved_P] = turned_KP[rank:].T
    mixed_PT[np.abs(mixed_PT) < ANNIHILATED] = 0.0
    return np.hstack([still_PT, mixed_PT])
