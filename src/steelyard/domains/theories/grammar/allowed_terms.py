"""All terms that a set of fields allows, as a tree of words.

All products of fields are tested together: first whether charges and n-alities cancel, then whether an independent
singlet remains. Results for products of SU(n) representations are cached, so most tests are table lookups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard.domains.theories.grammar.vocabulary import FERMION, LEG_COUNT, SCALAR, leg_word
from steelyard.domains.theories.groups.products import singlets
from steelyard.domains.theories.groups.representation import cached
from steelyard.domains.theories.model.theory import Kind, Label
from steelyard.domains.theories.physics.invariance import cycles_of, identical_leg_permutations

Combinations = NDArray[np.intp]
"""``[C, k]``: indices of the k legs of C products, in ascending order."""


class Multiplet(NamedTuple):
    """A field in a partially written theory."""

    kind: Kind
    labels: tuple[Label, ...]
    sixths: tuple[int, ...]
    """U(1) charges in units of 1/6."""
    generations: int = 1


class TermLeg(NamedTuple):
    """A factor of a term: a scalar, its conjugate, or a fermion written as left-handed."""

    word: str
    labels: tuple[Label, ...]
    sixths: tuple[int, ...]
    generations: int = 1


@dataclass(slots=True)
class TermTree:
    """A node of the tree: the number of terms that start with this prefix, and the subtree for each next word."""

    count: int = 0
    children: dict[str, TermTree] = field(default_factory=dict[str, "TermTree"])

    def add(self, words: Sequence[str]) -> None:
        node = self
        node.count += 1
        for word in words:
            node = node.children.setdefault(word, TermTree())
            node.count += 1


def allowed_terms(factors: tuple[int, ...], fields: Sequence[Multiplet]) -> TermTree:
    """Return the tree of all allowed terms: the kind of term, then its legs in canonical order."""
    sizes = tuple(n for n in factors if n > 1)
    fermions, scalars = fermion_legs(fields), scalar_legs(fields)
    legs, pairs, root = fermions + scalars, _fermion_pairs(len(fermions)), TermTree()
    candidates = {"mass": pairs, "yukawa": _yukawa_products(len(fermions), len(scalars))}
    for kind in ("phi2", "phi3", "phi4"):
        candidates[kind] = _scalar_products(len(scalars), LEG_COUNT[kind]) + len(fermions)
    neutral = _NeutralProducts(sizes, legs)
    for kind, combination_Ck in candidates.items():
        for places in neutral(combination_Ck):
            product = [legs[place] for place in places]
            if _is_allowed(sizes, product):
                root.add((kind, *(leg.word for leg in product)))
    return root


def fermion_legs(fields: Sequence[Multiplet]) -> list[TermLeg]:
    legs: list[TermLeg] = []
    for multiplet in fields:
        if multiplet.kind != "scalar":
            leg = TermLeg(f"{FERMION}{len(legs) + 1}", multiplet.labels, multiplet.sixths, multiplet.generations)
            legs.append(_conjugate(leg) if multiplet.kind == "right" else leg)
    return legs


def scalar_legs(fields: Sequence[Multiplet]) -> list[TermLeg]:
    """Return each scalar followed by its conjugate."""
    scalars = [multiplet for multiplet in fields if multiplet.kind == "scalar"]
    legs = [
        TermLeg(f"{SCALAR}{number}", multiplet.labels, multiplet.sixths) for number, multiplet in enumerate(scalars, 1)
    ]
    return [either for leg in legs for either in (leg, _conjugate(leg))]


def _conjugate(leg: TermLeg) -> TermLeg:
    labels = tuple(label[::-1] for label in leg.labels)
    return TermLeg(leg_word(leg.word, True), labels, tuple(-charge for charge in leg.sixths), leg.generations)


class _NeutralProducts:
    """Selects the products whose charges sum to 0 and whose n-alities sum to a multiple of n."""

    def __init__(self, sizes: tuple[int, ...], legs: Sequence[TermLeg]) -> None:
        self.modulus_A = np.asarray(sizes, np.int64)
        self.n_ality_LA = np.asarray(
            [[_n_ality(n, label) for n, label in zip(sizes, leg.labels, strict=True)] for leg in legs], np.int64
        ).reshape(len(legs), len(sizes))
        self.charge_LU = np.asarray([leg.sixths for leg in legs], np.int64).reshape(len(legs), -1 if legs else 0)

    def __call__(self, combination_Ck: Combinations) -> Iterator[list[int]]:
        if not combination_Ck.size:
            return iter(())
        neutral_C = ~self.charge_LU[combination_Ck].sum(1).any(1)
        neutral_C &= ~(self.n_ality_LA[combination_Ck].sum(1) % self.modulus_A).any(1)
        return iter(combination_Ck[neutral_C].tolist())


@lru_cache(maxsize=4096)
def _n_ality(n: int, label: Label) -> int:
    return cached(n, label).n_ality


@lru_cache(maxsize=64)
def _fermion_pairs(fermions: int) -> Combinations:
    return _products(fermions, 2)


@lru_cache(maxsize=1024)
def _yukawa_products(fermions: int, scalars: int) -> Combinations:
    pairs = _fermion_pairs(fermions)
    scalar = np.arange(fermions, fermions + scalars)
    return np.column_stack([pairs.repeat(scalars, 0), np.tile(scalar, len(pairs))])


@lru_cache(maxsize=256)
def _scalar_products(legs: int, k: int) -> Combinations:
    """Return the products of k scalars, one of each conjugate pair. Legs 2i and 2i + 1 are conjugates."""
    every = _products(legs, k)
    kept = [list(one) <= sorted(place ^ 1 for place in one) for one in every.tolist()]
    return every[kept] if kept else every


def _products(legs: int, k: int) -> Combinations:
    return np.asarray(list(combinations_with_replacement(range(legs), k)), np.intp).reshape(-1, k)


def _is_allowed(sizes: tuple[int, ...], legs: Sequence[TermLeg]) -> bool:
    """Return whether a product has a singlet that survives symmetrisation in identical legs, which are adjacent.

    The number of such singlets is the average, over permutations of identical legs, of their trace on singlets and
    generations.
    """
    alike = tuple(place > 0 and legs[place - 1].word == leg.word for place, leg in enumerate(legs))
    trace_of = [_traces(n, tuple([leg.labels[a] for leg in legs]), alike) for a, n in enumerate(sizes)]
    if not any(alike):
        return all(traces[0] for traces in trace_of)
    total = 0
    for number, permutation in enumerate(_permutations(alike)):
        trace = 1
        for traces in trace_of:
            trace *= traces[number]
        for cycle in permutation:
            trace *= legs[cycle[0]].generations
        total += trace
    return total > 0


@lru_cache(maxsize=64)
def _permutations(alike: tuple[bool, ...]) -> list[tuple[tuple[int, ...], ...]]:
    """Return the permutations of identical legs as cycles, starting with the identity."""
    numbers: list[int] = []
    for same in alike:
        numbers.append(numbers[-1] if same else len(numbers))
    return [cycles_of(permutation) for permutation in identical_leg_permutations(tuple(numbers))]


@lru_cache(maxsize=1 << 17)
def _traces(n: int, labels: tuple[Label, ...], alike: tuple[bool, ...]) -> tuple[int, ...]:
    return tuple(
        singlets(n, [labels[cycle[0]] for cycle in permutation], [len(cycle) for cycle in permutation])
        for permutation in _permutations(alike)
    )
