"""The unbroken gauge group of a vacuum: SU(k) factors and charges.

Vacuum expectation values lie in weight states. The generators that annihilate them are therefore roots E_ij of the
SU(n) factors, which group the n indices into blocks that each form an unbroken SU(k), or combinations of U(1) charges
and diagonal generators, which are found exactly. An unbroken SU(k) embedded in two factors is detected only through its
charges.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from steelyard.domains.theories.groups.generators import matrix_units
from steelyard.domains.theories.groups.rational import null_space, reduced_rows
from steelyard.domains.theories.groups.representation import Label, cached
from steelyard.domains.theories.model.theory import GaugeGroup, QuantumNumbers, Theory
from steelyard.domains.theories.physics.couplings import dimensions

Weights = tuple[Label, ...]
"""Weight of a state under each SU(n) factor."""
Vacuum = tuple[tuple[QuantumNumbers, tuple[tuple[int, float], ...]], ...]
"""Quantum numbers of each scalar with a vacuum expectation value, with (component, value) pairs."""


@dataclass(frozen=True, slots=True)
class UnbrokenFactor:
    """An unbroken SU(k) inside an SU(n) factor, given by k of the indices 0 … n - 1."""

    factor: int
    indices: tuple[int, ...]

    def weight(self, weights: Weights) -> Label:
        """Return the weight of a state under this SU(k)."""
        own = weights[self.factor]
        return tuple(sum(own[i:j]) for i, j in pairwise(self.indices))


@dataclass(frozen=True, slots=True)
class ChargeOperator:
    """A charge operator: a linear combination of U(1) charges and SU(n) weights."""

    abelian: tuple[Fraction, ...]
    special: tuple[tuple[Fraction, ...], ...]

    def of(self, charges: Iterable[Fraction], weights: Weights) -> Fraction:
        """Evaluate the charge of a state."""
        total = sum((a * q for a, q in zip(self.abelian, charges, strict=True)), Fraction(0))
        for coefficients, weight in zip(self.special, weights, strict=True):
            total += sum((b * w for b, w in zip(coefficients, weight, strict=True)), Fraction(0))
        return total

    def times(self, factor: Fraction) -> ChargeOperator:
        special = tuple(tuple(factor * b for b in coefficients) for coefficients in self.special)
        return ChargeOperator(tuple(factor * a for a in self.abelian), special)


@dataclass(frozen=True, slots=True)
class UnbrokenGroup:
    """The unbroken gauge group: SU(k) factors with colour first, and charges with the electric charge first."""

    blocks: tuple[UnbrokenFactor, ...]
    charges: tuple[ChargeOperator, ...]

    @property
    def colour(self) -> bool:
        """Whether an SU(3) is unbroken; if so, it is the first block."""
        return bool(self.blocks) and len(self.blocks[0].indices) == 3


def states(gauge: GaugeGroup, labels: tuple[Label, ...]) -> tuple[Weights, ...]:
    """Return the weights of every component of a field; the last factor varies fastest."""
    return _states(tuple(factor.n for factor in gauge.special), labels)


@lru_cache(maxsize=4096)
def _states(sizes: tuple[int, ...], labels: tuple[Label, ...]) -> tuple[Weights, ...]:
    return tuple(product(*(cached(n, label).weights for n, label in zip(sizes, labels, strict=True))))


def vacuum_vector(
    gauge: GaugeGroup, labels: tuple[Label, ...], values: Iterable[tuple[int, float]]
) -> NDArray[np.float64]:
    """Return ⟨φ⟩ of a field as a component vector with entries value / √2."""
    vector_D = np.zeros(prod(dimensions(gauge, labels)))
    for component, value in values:
        vector_D[component] += value / np.sqrt(2)
    return vector_D


def root_operators(
    gauge: GaugeGroup, factor: int, labels: tuple[Label, ...]
) -> dict[tuple[int, int], NDArray[np.float64]]:
    """Return E_ij of one SU(n) factor as matrices on the components of a field."""
    return _root_operators(tuple(f.n for f in gauge.special), factor, labels)


@lru_cache(maxsize=1024)
def _root_operators(
    sizes: tuple[int, ...], factor: int, labels: tuple[Label, ...]
) -> dict[tuple[int, int], NDArray[np.float64]]:
    size = [cached(n, label).dimension for n, label in zip(sizes, labels, strict=True)]
    before, after = np.eye(prod(size[:factor])), np.eye(prod(size[factor + 1 :]))
    units = matrix_units(sizes[factor], labels[factor])
    return {pair: np.kron(np.kron(before, unit), after).astype(np.float64) for pair, unit in units.items()}


def vacuum_by_field(theory: Theory) -> Vacuum:
    """Group the vacuum expectation values of a theory by field."""
    by_field: dict[str, list[tuple[int, float]]] = {}
    for vev in theory.vevs:
        by_field.setdefault(vev.field, []).append((vev.component, vev.value))
    return tuple((theory.by_name[name].acts, tuple(values)) for name, values in by_field.items())


@lru_cache(maxsize=4096)
def unbroken_group(gauge: GaugeGroup, vacuum: Vacuum) -> UnbrokenGroup:
    """Return the unbroken gauge group of a vacuum. Charges are scaled to a leading coefficient of 1."""
    blocks = [block for factor in range(len(gauge.special)) for block in _blocks(gauge, vacuum, factor)]
    colour = next((block for block in blocks if len(block.indices) == 3), None)
    blocks.sort(key=lambda block: block != colour)
    return UnbrokenGroup(tuple(blocks), _charges(gauge, vacuum, blocks))


def _blocks(gauge: GaugeGroup, vacuum: Vacuum, factor: int) -> list[UnbrokenFactor]:
    n = gauge.special[factor].n
    joined = list(range(n))
    vectors = [(multiplet.labels, vacuum_vector(gauge, multiplet.labels, values)) for multiplet, values in vacuum]
    turned = [(root_operators(gauge, factor, labels), vector_D) for labels, vector_D in vectors if any(labels[factor])]
    for i in range(n):
        for j in range(i + 1, n):
            pairs = ((units[pair], vector_D) for units, vector_D in turned for pair in ((i, j), (j, i)))
            if all(np.abs(unit_DD @ vector_D).max() <= 1e-9 * np.abs(vector_D).max() for unit_DD, vector_D in pairs):
                joined = [joined[i] if k == joined[j] else k for k in joined]
    groups = [tuple(i for i in range(n) if joined[i] == k) for k in dict.fromkeys(joined)]
    return [UnbrokenFactor(factor, group) for group in groups if len(group) > 1]


def _charges(gauge: GaugeGroup, vacuum: Vacuum, blocks: list[UnbrokenFactor]) -> tuple[ChargeOperator, ...]:
    """Return the charges that annihilate the vacuum and commute with the unbroken SU(k), in reduced row echelon form.

    The columns are ordered as the first SU(2), the U(1)s and the remaining SU(n).
    """
    columns = _columns(gauge)
    place = {column: position for position, column in enumerate(columns)}
    rows: list[dict[int, Fraction]] = []
    for multiplet, values in vacuum:
        every = states(gauge, multiplet.labels)
        abelian = {place[-1, i]: charge for i, charge in enumerate(multiplet.charges) if charge}
        for component, _ in values:
            weights = [(a, k, w) for a, weight in enumerate(every[component]) for k, w in enumerate(weight) if w]
            rows.append(abelian | {place[a, k]: Fraction(w) for a, k, w in weights})
    for block in blocks:
        for i, j in pairwise(block.indices):
            step = root(gauge.special[block.factor].n, i, j)
            rows.append({place[block.factor, k]: Fraction(w) for k, w in enumerate(step) if w})
    free = reduced_rows(null_space(rows, len(columns)))
    return tuple(_combination(gauge, {columns[c]: x for c, x in row.items()}) for row in free)


def _combination(gauge: GaugeGroup, row: dict[tuple[int, int], Fraction]) -> ChargeOperator:
    weak = first_su2(gauge)
    scale = Fraction(1, 2) if weak is not None and (weak, 0) in row else Fraction(1)
    abelian = tuple(scale * row.get((-1, i), Fraction(0)) for i in range(len(gauge.abelian)))
    special = tuple(
        tuple(scale * row.get((a, k), Fraction(0)) for k in range(factor.n - 1))
        for a, factor in enumerate(gauge.special)
    )
    return ChargeOperator(abelian, special)


def _columns(gauge: GaugeGroup) -> list[tuple[int, int]]:
    """Return the column order for row reduction as (factor, position), with factor -1 for the U(1)s."""
    abelian = [(-1, i) for i in range(len(gauge.abelian))]
    special = [(a, k) for a, factor in enumerate(gauge.special) for k in range(factor.n - 1)]
    weak = first_su2(gauge)
    first = [] if weak is None else [(weak, 0)]
    return [*first, *abelian, *(column for column in special if column not in first)]


def first_su2(gauge: GaugeGroup) -> int | None:
    """Return the index of the first SU(2) factor, if any."""
    return next((a for a, factor in enumerate(gauge.special) if factor.n == 2), None)


def root(n: int, i: int, j: int) -> list[int]:
    """Return the weight of E_ij in the Dynkin basis."""
    content = [(k == i) - (k == j) for k in range(n)]
    return [a - b for a, b in pairwise(content)]
