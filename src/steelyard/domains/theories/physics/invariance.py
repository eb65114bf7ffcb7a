"""Gauge and Lorentz invariance of terms, and the number of independent terms for given legs.

The number of singlets of a product group is the product over its factors. With identical legs, many contractions vanish
or coincide (ε_ij H_i H_j = 0). The number of independent ones is the trace of a permutation of identical legs on the
singlets, averaged over all such permutations. Spinors contract antisymmetrically and anticommute, so identical fermions
are symmetric in gauge and generation indices together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import permutations, product
from math import prod

from steelyard.domains.theories.groups.products import singlets
from steelyard.domains.theories.groups.representation import cached
from steelyard.domains.theories.model.theory import GaugeGroup, QuantumNumbers, Term, Theory, term_kind

Permutation = tuple[int, ...]


def invariants(gauge: GaugeGroup, legs: Sequence[QuantumNumbers]) -> int:
    """Count the gauge singlets in a product of legs, treated as different fields with one generation each."""
    sizes = tuple(factor.n for factor in gauge.special)
    return _singlet_trace(sizes, tuple(legs), tuple(range(len(legs))))


def swap_trace(gauge: GaugeGroup, legs: Sequence[QuantumNumbers], one: int, other: int) -> int:
    """Return the trace on the singlets of swapping two identical legs.

    For a single singlet this is 1 if it is symmetric in the legs and -1 if it is antisymmetric.
    """
    order = list(range(len(legs)))
    order[one], order[other] = other, one
    return _singlet_trace(tuple(factor.n for factor in gauge.special), tuple(legs), tuple(order))


def structures(
    gauge: GaugeGroup, legs: Sequence[QuantumNumbers], alike: Sequence[int], generations: Sequence[int]
) -> int:
    """Count the independent terms with these legs; 0 means that every such product vanishes.

    Legs with the same number in ``alike`` are identical. ``generations`` lists the number of generations of each leg.
    """
    sizes = tuple(factor.n for factor in gauge.special)
    return _structures(sizes, tuple(legs), tuple(alike), tuple(generations))


def term_structures(theory: Theory, term: Term) -> int:
    """Count the independent terms with the legs of a given term."""
    numbers = {leg: number for number, leg in enumerate(dict.fromkeys(term.legs))}
    return structures(
        theory.gauge,
        [theory.leg_quantum_numbers(leg) for leg in term.legs],
        [numbers[leg] for leg in term.legs],
        [theory.by_name[leg.field].generations for leg in term.legs],
    )


def flaws(theory: Theory) -> list[str]:
    """List everything in a theory that is malformed or not gauge-invariant. Anomalies are not checked."""
    return [*_field_flaws(theory), *_vev_flaws(theory), *_term_flaws(theory)]


def _field_flaws(theory: Theory) -> Iterator[str]:
    gauge = theory.gauge
    if len(set(gauge.names)) < len(gauge.names):
        yield "two gauge groups have the same name"
    if len(theory.by_name) < len(theory.fields):
        yield "two fields have the same name"
    for field in theory.fields:
        if len(field.labels) != len(gauge.special) or len(field.charges) != len(gauge.abelian):
            yield f"{field.name}: needs one representation per SU(n) and one charge per U(1)"
            continue
        for factor, label in zip(gauge.special, field.labels, strict=True):
            if len(label) != factor.n - 1 or min(label) < 0:
                yield f"{field.name}: {label} is not a Dynkin label of SU({factor.n})"
        if field.generations < 1 or (field.generations > 1 and not field.fermion):
            yield f"{field.name}: {field.generations} generations; fermions need at least 1, scalars exactly 1"


def _vev_flaws(theory: Theory) -> Iterator[str]:
    for vev in theory.vevs:
        field = theory.by_name.get(vev.field)
        if field is None or field.fermion:
            yield f"vev of {vev.field}: no scalar has this name"
            continue
        pairs = zip(theory.gauge.special, field.labels, strict=True)
        states = prod(cached(factor.n, label).dimension for factor, label in pairs)
        if not 0 <= vev.component < states or vev.value <= 0:
            yield (
                f"vev of {vev.field}: component {vev.component} must be from 0 to {states - 1} and {vev.value:g} GeV "
                "must be positive"
            )


def _term_flaws(theory: Theory) -> Iterator[str]:
    for term in theory.terms:
        written = " ".join(leg.field + "†" * leg.conjugate for leg in term.legs)
        if unknown := [leg.field for leg in term.legs if leg.field not in theory.by_name]:
            yield f"{written}: no field is named {unknown[0]}"
        elif term_kind(theory, term) is None:
            yield f"{written}: a term has two to four scalars, or two left-handed spinors and at most one scalar"
        elif not term_structures(theory, term):
            yield f"{written}: the product is not gauge-invariant or vanishes"


@lru_cache(maxsize=1 << 16)
def _structures(
    sizes: tuple[int, ...], legs: tuple[QuantumNumbers, ...], alike: tuple[int, ...], generations: tuple[int, ...]
) -> int:
    total, count = 0, 0
    for permutation in identical_leg_permutations(alike):
        flavours = prod(generations[cycle[0]] for cycle in cycles_of(permutation))
        total += flavours * _singlet_trace(sizes, legs, permutation)
        count += 1
    return total // count


def _singlet_trace(sizes: tuple[int, ...], legs: tuple[QuantumNumbers, ...], permutation: Permutation) -> int:
    """Return the trace of a permutation of legs on the gauge singlets of their product."""
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
def identical_leg_permutations(alike: tuple[int, ...]) -> tuple[Permutation, ...]:
    """Return all permutations that only exchange legs with the same number."""
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
