"""Interaction terms in components: coefficient tensors over the states of their legs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from steelyard.domains.theories.groups.invariants import SpecialUnitaryLeg, Tensor, tensors
from steelyard.domains.theories.groups.representation import Label, cached
from steelyard.domains.theories.model.theory import GaugeGroup, Term, Theory

TOLERANCE = 1e-9
Legs = tuple[tuple[tuple[Label, ...], bool], ...]
"""Labels of each leg, and whether it is conjugated."""


def term_tensors(theory: Theory, term: Term) -> tuple[Tensor, ...]:
    """Return the independent contractions of a term. Indices are field components, and the largest entry is 1.

    Contractions of identical legs are symmetrised. Contractions that are antisymmetric in two identical fermions come
    last; they require several generations.
    """
    sizes = tuple(factor.n for factor in theory.gauge.special)
    legs = tuple((theory.by_name[leg.field].labels, leg.conjugate) for leg in term.legs)
    numbers = {leg: number for number, leg in enumerate(dict.fromkeys(term.legs))}
    alike = tuple(numbers[leg] for leg in term.legs)
    fermions = tuple(theory.by_name[leg.field].fermion for leg in term.legs)
    return _term_tensors(sizes, legs, alike, fermions)


def dimensions(gauge: GaugeGroup, labels: Sequence[Label]) -> tuple[int, ...]:
    """Return the dimension under each SU(n) factor."""
    return tuple(cached(factor.n, label).dimension for factor, label in zip(gauge.special, labels, strict=True))


@lru_cache(maxsize=4096)
def _term_tensors(
    sizes: tuple[int, ...], legs: Legs, alike: tuple[int, ...], fermions: tuple[bool, ...]
) -> tuple[Tensor, ...]:
    shape = tuple(_states(sizes, labels) for labels, _ in legs)
    each = [
        tensors(n, tuple(SpecialUnitaryLeg(labels[factor], conjugate) for labels, conjugate in legs))
        for factor, n in enumerate(sizes)
    ]
    found = [_outer(sizes, legs, chosen) for chosen in product(*each)]
    if len(set(alike)) == len(alike):
        return tuple(found)
    symmetric = _independent([_symmetric(tensor, alike, 1) for tensor in found], shape)
    if not _has_identical_fermions(alike, fermions):
        return symmetric
    return symmetric + _independent([_symmetric(tensor, alike, -1) for tensor in found], shape)


def _has_identical_fermions(alike: tuple[int, ...], fermions: tuple[bool, ...]) -> bool:
    numbers = [number for number, fermion in zip(alike, fermions, strict=True) if fermion]
    return len(set(numbers)) < len(numbers)


def _states(sizes: tuple[int, ...], labels: tuple[Label, ...]) -> int:
    return prod(cached(n, label).dimension for n, label in zip(sizes, labels, strict=True))


def _outer(sizes: tuple[int, ...], legs: Legs, chosen: Sequence[Tensor]) -> Tensor:
    """Return the outer product of one tensor per factor; component indices vary fastest over the last factor."""
    index_NL = np.zeros((1, len(legs)), np.int64)
    value_N = np.ones(1)
    for factor, tensor in enumerate(chosen):
        dimension_L = np.array([cached(sizes[factor], labels[factor]).dimension for labels, _ in legs])
        index_NL = (index_NL[:, None] * dimension_L + tensor.index_NL).reshape(-1, len(legs))
        value_N = (value_N[:, None] * tensor.value_N).reshape(-1)
    return Tensor(index_NL, value_N)


def _symmetric(tensor: Tensor, alike: tuple[int, ...], sign: int) -> Tensor:
    """Average over permutations of identical legs. With ``sign`` = -1, antisymmetrise in the two identical legs."""
    legs = len(alike)
    orders = [order for order in permutations(range(legs)) if all(alike[i] == alike[j] for i, j in enumerate(order))]
    signs = [1 if order == tuple(range(legs)) else sign for order in orders]
    index_NL = np.concatenate([tensor.index_NL[:, order] for order in orders])
    value_N = np.concatenate([tensor.value_N * own for own in signs]) / len(orders)
    return _merged(index_NL, value_N)


def _merged(index_NL: NDArray[np.int64], value_N: NDArray[np.float64]) -> Tensor:
    unique_NL, where_N = np.unique(index_NL, axis=0, return_inverse=True)
    total_N = np.zeros(len(unique_NL))
    np.add.at(total_N, where_N.reshape(-1), value_N)
    kept_N = np.abs(total_N) > TOLERANCE
    return Tensor(unique_NL[kept_N], total_N[kept_N])


def _independent(found: Sequence[Tensor], shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Return a basis of the span of the tensors, found by elimination and scaled to a largest entry of 1."""
    stride_L = np.array([prod(shape[place + 1 :]) for place in range(len(shape))], np.int64)
    kept: list[dict[int, float]] = []
    for tensor in found:
        values = _by_place(tensor, stride_L)
        for basis in kept:
            lead = next(iter(basis))
            times = values.get(lead, 0.0) / basis[lead]
            for place, value in basis.items():
                values[place] = values.get(place, 0.0) - times * value
        rest = {place: value for place, value in sorted(values.items()) if abs(value) > TOLERANCE}
        if rest:
            kept.append(rest)
    return tuple(_scaled(values, shape) for values in kept)


def _by_place(tensor: Tensor, stride_L: NDArray[np.int64]) -> dict[int, float]:
    """Return the entries of a tensor by flat index."""
    places: list[int] = (tensor.index_NL @ stride_L).tolist()
    values: list[float] = tensor.value_N.tolist()
    return dict(zip(places, values, strict=True))


def _scaled(values: dict[int, float], shape: tuple[int, ...]) -> Tensor:
    value_N = np.array(list(values.values()))
    index_NL = np.stack(np.unravel_index(list(values), shape), axis=1).astype(np.int64)
    largest = np.argmax(np.abs(value_N) > np.abs(value_N).max() * (1 - TOLERANCE))
    return Tensor(index_NL, value_N / value_N[largest])
