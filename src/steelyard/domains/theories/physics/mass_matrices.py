"""Mass matrices of fermions and scalars in the vacuum, in components.

Fermions: L = -½ ψᵀ M ψ over all left-handed Weyl states. The masses are the singular values of M. In generation space a
coupling is the unit matrix, or an antisymmetric matrix with entries ±1 where the contraction is antisymmetric.

Scalars: with Φ = (φ, φ*) and V = ½ Φ† H Φ + …, the squared masses are the eigenvalues of H orthogonal to the Goldstone
directions. For a field with vacuum expectation value v, the coefficient of φ†φ is set so that v is an extremum of the
potential along its own direction.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import permutations
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard.domains.theories.groups.invariants import Tensor
from steelyard.domains.theories.model.theory import Field, Leg, Term, Theory
from steelyard.domains.theories.physics.couplings import dimensions, term_tensors
from steelyard.domains.theories.physics.vacuum import root_operators, states, vacuum_by_field, vacuum_vector

Array = NDArray[np.float64]
INT64_BITS = 63
"""Theories with fewer terms use int64 bit masks; others use Python integers."""
NOISE = 1e-14
"""Relative rounding threshold. Squared scalar masses count as 0 below this fraction of the largest one they mix with.
Sums whose terms cancel to this fraction count as 0 as well.
"""


class BasisState(NamedTuple):
    """A basis state: one component of a field or of its conjugate."""

    field: int
    component: int
    conjugate: bool


class MassMatrix(NamedTuple):
    """A mass matrix, its basis, and a bit mask of the contributing terms for each entry."""

    basis: list[BasisState]
    matrix_SS: Array
    origin_SS: NDArray[Any]


def component_count(theory: Theory, field: Field) -> int:
    """Return the number of components of one generation of a field."""
    return prod(dimensions(theory.gauge, field.labels))


def vacuum(theory: Theory) -> dict[str, Array]:
    """Return ⟨φ⟩ as a component vector for each scalar with a vacuum expectation value."""
    vectors: dict[str, Array] = {}
    names = list(dict.fromkeys(vev.field for vev in theory.vevs))
    for name, (acts, values) in zip(names, vacuum_by_field(theory), strict=True):
        vectors[name] = vacuum_vector(theory.gauge, acts.labels, values)
    return vectors


def fermion_matrix(theory: Theory) -> MassMatrix:
    """Return M over the left-handed states of all fermions, ordered by field and generation."""
    basis: list[BasisState] = []
    first: dict[str, int] = {}
    for number, field in enumerate(theory.fields):
        if field.fermion:
            first[field.name] = len(basis)
            size = component_count(theory, field)
            basis += [
                BasisState(number, i, field.kind == "right") for _ in range(field.generations) for i in range(size)
            ]
    matrix_SS, origin_SS = _empty(theory, len(basis))
    values = vacuum(theory)
    for number, term in enumerate(theory.terms):
        spinors = [i for i, leg in enumerate(term.legs) if theory.by_name[leg.field].fermion]
        if len(spinors) == 2 and _count_vevs(term, values) >= len(term.legs) - 2:
            for tensor in term_tensors(theory, term):
                added_block = _fermion_block(theory, term, spinors, _at_vacuum(tensor, term.legs, spinors, values))
                a, b = (first[term.legs[i].field] for i in spinors)
                for block, rows, columns in ((added_block, a, b), (added_block.T, b, a)):
                    at = slice(rows, rows + block.shape[0]), slice(columns, columns + block.shape[1])
                    matrix_SS[at] += block
                    origin_SS[at] |= (block != 0).astype(origin_SS.dtype) * (1 << number)
    return MassMatrix(basis, matrix_SS, origin_SS)


def _empty(theory: Theory, size: int) -> tuple[Array, NDArray[Any]]:
    """Return a zero matrix and a zero matrix of term bit masks."""
    return np.zeros((size, size)), np.zeros((size, size), np.int64 if len(theory.terms) < INT64_BITS else object)


def _fermion_block(theory: Theory, term: Term, spinors: list[int], tensor: Tensor) -> Array:
    """Return a term's block of M between its two fermions, halved if they are identical because it is added twice."""
    one, two = (term.legs[i] for i in spinors)
    fields = [theory.by_name[leg.field] for leg in (one, two)]
    mass_RC = np.zeros([component_count(theory, field) for field in fields])
    np.add.at(mass_RC, tuple(tensor.index_NL[:, spinors].T), tensor.value_N * term.parameter)
    flavour_GG = np.eye(fields[0].generations, fields[1].generations)
    if one != two:
        return np.kron(flavour_GG, mass_RC).astype(np.float64)
    antisymmetric_GG = np.triu(np.ones_like(flavour_GG), 1)
    antisymmetric_GG -= antisymmetric_GG.T
    full = np.kron(flavour_GG, mass_RC + mass_RC.T) + np.kron(antisymmetric_GG, mass_RC - mass_RC.T)
    return (full / 4).astype(np.float64)


def _at_vacuum(tensor: Tensor, legs: Sequence[Leg], free: Sequence[int], values: dict[str, Array]) -> Tensor:
    """Insert vacuum expectation values for all legs except the free ones. Only free indices remain meaningful."""
    value_N = tensor.value_N
    for i, leg in enumerate(legs):
        if i not in free:
            if leg.field not in values:
                return Tensor(tensor.index_NL[:0], value_N[:0])
            value_N = value_N * values[leg.field][tensor.index_NL[:, i]]
    kept_N = value_N != 0
    return Tensor(tensor.index_NL[kept_N], value_N[kept_N])


def scalar_matrix(theory: Theory) -> tuple[MassMatrix, Array]:
    """Return H over Φ = (φ, φ*), and the gradient ∂V/∂φ in the vacuum, which is 0 at an extremum."""
    scalars = [(number, field) for number, field in enumerate(theory.fields) if not field.fermion]
    first: dict[str, int] = {}
    basis: list[BasisState] = []
    for number, field in scalars:
        first[field.name] = len(basis)
        basis += [BasisState(number, i, conjugate=False) for i in range(component_count(theory, field))]
    half = len(basis)
    basis += [BasisState(state.field, state.component, conjugate=True) for state in basis]
    values = vacuum(theory)
    (second_SS, origin_SS), first_S = _empty(theory, 2 * half), np.zeros(2 * half)
    for number, term in enumerate(theory.terms):
        if not _is_ignored(theory, term, values) and _count_vevs(term, values) >= len(term.legs) - 2:
            for legs, tensor, parameter in _potential(theory, term):
                place = [first[leg.field] + half * leg.conjugate for leg in legs]
                for p in range(len(legs)):
                    contracted = _at_vacuum(tensor, legs, [p], values)
                    np.add.at(first_S, place[p] + contracted.index_NL[:, p], contracted.value_N * parameter)
                for p, q in permutations(range(len(legs)), 2):
                    contracted = _at_vacuum(tensor, legs, [p, q], values)
                    at = place[p] + contracted.index_NL[:, p], place[q] + contracted.index_NL[:, q]
                    np.add.at(second_SS, at, contracted.value_N * parameter)
                    origin_SS[at] |= 1 << number
    for name, value_D in values.items():
        indices = np.arange(first[name], first[name] + len(value_D))
        squared = -(value_D @ first_S[indices]) / (value_D @ value_D)
        second_SS[indices, indices + half] += squared
        second_SS[indices + half, indices] += squared
        first_S[indices] += squared * value_D
        first_S[indices + half] += squared * value_D
    return MassMatrix(basis, *(np.roll(own_SS, half, axis=0) for own_SS in (second_SS, origin_SS))), first_S[:half]


def _count_vevs(term: Term, values: dict[str, Array]) -> int:
    """Count the legs with a vacuum expectation value. A term contributes to masses if all legs but two have a vacuum
    expectation value.
    """
    return sum(leg.field in values for leg in term.legs)


def _is_ignored(theory: Theory, term: Term, values: dict[str, Array]) -> bool:
    """Return whether to skip a term, because it is φ†φ of a field with a vacuum expectation value or has fermions."""
    if any(theory.by_name[leg.field].fermion for leg in term.legs):
        return True
    return len(term.legs) == 2 and term.legs[0].field in values and term.legs[0] == _conjugate(term.legs[1])


def _potential(theory: Theory, term: Term) -> Iterator[tuple[tuple[Leg, ...], Tensor, float]]:
    """Yield the tensors of a term and of its Hermitian conjugate, with half the parameter if both are the same."""
    mirrored = tuple(map(_conjugate, term.legs))
    parameter = term.parameter / (2 if Counter(mirrored) == Counter(term.legs) else 1)
    for tensor in term_tensors(theory, term):
        yield term.legs, tensor, parameter
        yield mirrored, tensor, parameter


def _conjugate(leg: Leg) -> Leg:
    return Leg(leg.field, not leg.conjugate)


def goldstones(theory: Theory, basis: Sequence[BasisState]) -> Array:
    """Return the Goldstone directions of Φ as columns: (X v, -Xᵀ v) for each gauge generator X."""
    values = vacuum(theory)
    half = len(basis) // 2
    columns: list[Array] = []
    numbers = {field.name: number for number, field in enumerate(theory.fields)}
    start = {state.field: i for i, state in reversed(list(enumerate(basis[:half])))}
    by_generator: dict[tuple[int, int, int], Array] = defaultdict(lambda: np.zeros(2 * half))
    for name, value_D in values.items():
        field = theory.by_name[name]
        indices = np.arange(start[numbers[name]], start[numbers[name]] + len(value_D))
        for factor, label in enumerate(field.labels):
            if any(label):
                for (i, j), unit_DD in root_operators(theory.gauge, factor, field.labels).items():
                    by_generator[factor, i, j][indices] = unit_DD @ value_D
                    by_generator[factor, i, j][indices + half] = -unit_DD.T @ value_D
        for row, scale_D in enumerate(_diagonal(theory, field)):
            by_generator[-1, row, row][indices] = scale_D * value_D
            by_generator[-1, row, row][indices + half] = -scale_D * value_D
    columns = [column for column in by_generator.values() if column.any()]
    return np.array(columns).reshape(len(columns), 2 * half).T


def _diagonal(theory: Theory, field: Field) -> Array:
    """Return the U(1) charges and weights of the components of a field, one row per diagonal generator."""
    size = component_count(theory, field)
    rows = [[float(charge)] * size for charge in field.charges]
    weights = [[w for weight in state for w in weight] for state in states(theory.gauge, field.labels)]
    return np.array([*rows, *zip(*weights, strict=True)], np.float64).reshape(-1, size)
