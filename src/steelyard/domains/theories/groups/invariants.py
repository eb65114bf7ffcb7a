"""Explicit invariant tensors of SU(n) for products of two, three or four legs.

A term Σ c_{ij…} φ_i χ_j … is invariant if the coefficients c form a singlet in the product of the dual spaces. The legs
are split into two halves. Each irreducible R in the dual of the first half, paired with R* in the dual of the second,
gives one singlet Σ_Λ f(ξ_Λ) g(ξ^Λ). Here f: R → first and g: R* → second are equivariant maps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard.domains.theories.groups.generators import Matrix, Module, module
from steelyard.domains.theories.groups.products import decompose
from steelyard.domains.theories.groups.rational import Vector, add, null_space, solve
from steelyard.domains.theories.groups.representation import Label

Index = tuple[int, ...]
"""One state index per leg."""


class Tensor(NamedTuple):
    """A sparse tensor in the orthonormal bases of its legs."""

    index_NL: NDArray[np.int64]
    value_N: NDArray[np.float64]


class SpecialUnitaryLeg(NamedTuple):
    """A field or its conjugate under one SU(n). Conjugate legs are indexed by the components of the field itself."""

    label: Label
    conjugate: bool = False


@lru_cache(maxsize=4096)
def tensors(n: int, legs: tuple[SpecialUnitaryLeg, ...]) -> tuple[Tensor, ...]:
    """Return all independent invariants, each scaled so that its largest entry is 1."""
    return tuple(_orthonormal(n, legs, vector) for vector in exact_tensors(n, legs))


@lru_cache(maxsize=4096)
def exact_tensors(n: int, legs: tuple[SpecialUnitaryLeg, ...]) -> tuple[Vector[Index], ...]:
    """Return all independent invariants in the bases of :func:`module`, where their entries are rational."""
    forms = tuple(module(n, leg.label, dual=not leg.conjugate) for leg in legs)
    cut = (len(legs) + 1) // 2
    first = [leg.label if leg.conjugate else leg.label[::-1] for leg in legs[:cut]]
    found: list[Vector[Index]] = []
    for label in sorted(decompose(n, first)):
        first_maps = _embeddings(module(n, label), forms[:cut])
        second_maps = _embeddings(module(n, label, dual=True), forms[cut:]) if first_maps else []
        found += [_paired(f, g) for f, g in product(first_maps, second_maps)]
    return tuple(found)


def apply_generator(factors: Sequence[Module], vector: Vector[Index], which: Sequence[Matrix]) -> Vector[Index]:
    """Apply one generator to a vector in a product space; ``which`` holds its matrix on each factor."""
    found: Vector[Index] = {}
    for index, value in vector.items():
        for leg in range(len(factors)):
            for row, entry in which[leg][index[leg]]:
                add(found, {(*index[:leg], row, *index[leg + 1 :]): entry}, value)
    return found


def _embeddings(target: Module, factors: tuple[Module, ...]) -> list[list[Vector[Index]]]:
    """Return the independent equivariant maps from an irreducible representation into a product, as images of its
    states.
    """
    if not factors:
        return [[{(): Fraction(1)}]] if target.dimension == 1 else []
    indices = list(_of_weight(factors, target.weights[target.highest_state]))
    equations: dict[tuple[int, Index], Vector[int]] = defaultdict(dict)
    for column, index in enumerate(indices):
        for k in range(len(target.raising)):
            image = apply_generator(factors, {index: Fraction(1)}, [factor.raising[k] for factor in factors])
            for reached, value in image.items():
                equations[k, reached][column] = value
    highest = null_space(equations.values(), len(indices))
    return [_descend(target, factors, {indices[i]: x for i, x in vector.items()}) for vector in highest]


def _descend(target: Module, factors: tuple[Module, ...], top: Vector[Index]) -> list[Vector[Index]]:
    """Extend the image of the highest-weight state to all states, solving F_k ξ = Σ b ξ′ level by level for the ξ′."""
    images: dict[int, Vector[Index]] = {target.highest_state: top}
    level = [target.highest_state]
    while level:
        equations: list[tuple[Vector[int], Vector[Index]]] = []
        for state in level:
            for k, matrix in enumerate(target.lowering):
                if matrix[state]:
                    lowered = apply_generator(factors, images[state], [factor.lowering[k] for factor in factors])
                    equations.append((dict(matrix[state]), lowered))
        below = solve(equations)
        images |= below
        level = list(below)
    return [images[state] for state in range(target.dimension)]


def _of_weight(factors: tuple[Module, ...], weight: Label) -> Iterator[Index]:
    """Yield the product states with the given weight."""
    if len(factors) == 1:
        yield from ((i,) for i, state_weight in enumerate(factors[0].weights) if state_weight == weight)
        return
    for i, state_weight in enumerate(factors[0].weights):
        rest = tuple(a - b for a, b in zip(weight, state_weight, strict=True))
        yield from ((i, *index) for index in _of_weight(factors[1:], rest))


def _paired(f: list[Vector[Index]], g: list[Vector[Index]]) -> Vector[Index]:
    found: Vector[Index] = {}
    for one, other in zip(f, g, strict=True):
        for left, value in one.items():
            add(found, {left + right: entry for right, entry in other.items()}, value)
    return found


def _orthonormal(n: int, legs: tuple[SpecialUnitaryLeg, ...], vector: Vector[Index]) -> Tensor:
    """Convert to orthonormal components: divide by |ξ| on plain legs and multiply by |ξ| on conjugate legs."""
    indices = sorted(vector)
    index_NL = np.array(indices, np.int64).reshape(len(indices), len(legs))
    value_N = np.array([float(vector[index]) for index in indices])
    for leg, (label, conjugate) in enumerate(legs):
        size_D = np.sqrt(np.array([float(norm) for norm in module(n, label).norms]))[index_NL[:, leg]]
        value_N = value_N * size_D if conjugate else value_N / size_D
    largest = np.argmax(np.abs(value_N) > np.abs(value_N).max() * (1 - 1e-9))
    return Tensor(index_NL, value_N / value_N[largest])
