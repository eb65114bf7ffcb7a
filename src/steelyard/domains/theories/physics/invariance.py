"""Whether a term is allowed: gauge and Lorentz invariance, and how many independent terms its legs make.

The singlets of a product gauge group are the product of the singlets of its factors. Where legs are alike, most
contractions of them vanish or repeat (ε_ij H_i H_j = 0): what is left is counted as the average over the permutations
of like legs of the trace on the singlets. Two spinors contract antisymmetrically and anticommute, so that like fermions
count as symmetric, in gauge indices and generations together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import permutations, product
from math import prod

from steelyard.domains.theories.groups.products import singlets
from steelyard.domains.theories.groups.representation import cached
from steelyard.domains.theories.model.theory import Gauge, QuantumNumbers, Term, Theory, term_kind

Permutation = tuple[int, ...]


def invariants(gauge: Gauge, legs: Sequence[QuantumNumbers]) -> int:
    """How many gauge singlets the product of these has, all taken as different fields of one generation."""
    sizes = tuple(factor.n for factor in gauge.special)
    return _traced(sizes, tuple(legs), tuple(range(len(legs))))


def swap_sign(gauge: Gauge, legs: Sequence[QuantumNumbers], one: int, other: int) -> int:
    """The trace on the singlets of swapping two like legs: where there is one singlet, 1 if it is symmetric in them and
    -1 if it is antisymmetric.
    """
    order = list(range(len(legs)))
    order[one], order[other] = other, one
    return _traced(tuple(factor.n for factor in gauge.special), tuple(legs), tuple(order))


def structures(gauge: Gauge, legs: Sequence[QuantumNumbers], alike: Sequence[int], generations: Sequence[int]) -> int:
    """How many independent terms these legs make; 0: every such product vanishes.

    Legs with the same number in ``alike`` are the same field, conjugated alike; ``generations`` of each leg.
    """
    sizes = tuple(factor.n for factor in gauge.special)
    return _structures(sizes, tuple(legs), tuple(alike), tuple(generations))


def term_structures(theory: Theory, term: Term) -> int:
    """The same of a term of a theory."""
    numbers = {leg: number for number, leg in enumerate(dict.fromkeys(term.legs))}
    return structures(
        theory.gauge,
        [theory.leg(leg) for leg in term.legs],
        [numbers[leg] for leg in term.legs],
        [theory.by_name[leg.field].generations for leg in term.legs],
    )


def flaws(theory: Theory) -> list[str]:
    """What is wrong with a theory, whatever its anomalies; empty: well formed and gauge-invariant."""
    return [*_field_flaws(theory), *_vev_flaws(theory), *_term_flaws(theory)]


def _field_flaws(theory: Theory) -> Iterator[str]:
    gauge = theory.gauge
    if len(set(gauge.names)) < len(gauge.names):
        yield "two gauge groups have one name"
    if len(theory.by_name) < len(theory.fields):
        yield "two fields have one name"
    for field in theory.fields:
        if len(field.labels) != len(gauge.special) or len(field.charges) != len(gauge.abelian):
            yield f"{field.name}: it takes one representation and one charge for each gauge group"
            continue
        for factor, label in zip(gauge.special, field.labels, strict=True):
            if len(label) != factor.n - 1 or min(label) < 0:
                yield f"{field.name}: {label} is no label of SU({factor.n})"
        if field.generations < 1 or (field.generations > 1 and not field.fermion):
            yield f"{field.name}: {field.generations} generations"


def _vev_flaws(theory: Theory) -> Iterator[str]:
    for vev in theory.vevs:
        field = theory.by_name.get(vev.field)
        if field is None or field.fermion:
            yield f"the vev of {vev.field}: there is no such scalar"
            continue
        pairs = zip(theory.gauge.special, field.labels, strict=True)
        states = prod(cached(factor.n, label).dimension for factor, label in pairs)
        if not 0 <= vev.component < states or vev.value <= 0:
            yield f"the vev of {vev.field}: component {vev.component} of {states}, {vev.value:g} GeV"


def _term_flaws(theory: Theory) -> Iterator[str]:
    for term in theory.terms:
        written = " ".join(leg.field + "†" * leg.conjugate for leg in term.legs)
        if unknown := [leg.field for leg in term.legs if leg.field not in theory.by_name]:
            yield f"{written}: there is no field {unknown[0]}"
        elif term_kind(theory, term) is None:
            yield f"{written}: neither two to four scalars nor two left-handed spinors with at most one scalar"
        elif not term_structures(theory, term):
            yield f"{written}: not gauge-invariant, or nothing"


@lru_cache(maxsize=1 << 16)
def _structures(
    sizes: tuple[int, ...], legs: tuple[QuantumNumbers, ...], alike: tuple[int, ...], generations: tuple[int, ...]
) -> int:
    total, count = 0, 0
    for permutation in like_permutations(alike):
        flavours = prod(generations[cycle[0]] for cycle in cycles_of(permutation))
        total += flavours * _traced(sizes, legs, permutation)
        count += 1
    return total // count


def _traced(sizes: tuple[int, ...], legs: tuple[QuantumNumbers, ...], permutation: Permutation) -> int:
    """The trace of a permutation of legs on the gauge singlets of their product."""
    if any(sum(charges) for charges in zip(*(leg.charges for leg in legs), strict=True)):
        return 0
    cycles = cycles_of(permutation)
    powers = [len(cycle) for cycle in cycles]
    found = 1
    for factor, n in enumerate(sizes):
        found *= singlets(n, [legs[cycle[0]].labels[factor] for cycle in cycles], powers)
        if not found:
            break
    return found


@lru_cache(maxsize=1024)
def like_permutations(alike: tuple[int, ...]) -> tuple[Permutation, ...]:
    """All permutations that move legs only among legs of their own number."""
    places = [[i for i, number in enumerate(alike) if number == kind] for kind in dict.fromkeys(alike)]
    found: list[Permutation] = []
    for orders in product(*(permutations(group) for group in places)):
        moved: dict[int, int] = {}
        for group, order in zip(places, orders, strict=True):
            moved.update(zip(group, order, strict=True))
        found.append(tuple(moved[i] for i in range(len(alike))))
    return tuple(found)


@lru_cache(maxsize=1024)
def cycles_of(permutation: Permutation) -> tuple[tuple[int, ...], ...]:
    left, found = set(range(len(permutation))), list[tuple[int, ...]]()
    while left:
        at = min(left)
        cycle: list[int] = []
        while at in left:
            left.discard(at)
            cycle.append(at)
            at = permutation[at]
        found.append(tuple(cycle))
    return tuple(found)
