"""Which of the charges that the vacuum leaves is electric, and what it is for every component."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm

from steelyard.domains.theories.groups.representation import Label
from steelyard.domains.theories.theory import Gauge, Theory
from steelyard.domains.theories.vacuum import Combination, Unbroken, first_weak, states, unbroken_group, vacuum_of

TRIPLET = ((1, 0), (-1, 1), (0, -1))
QUARKS = (Fraction(2, 3), Fraction(-1, 3))


def unbroken(theory: Theory) -> Unbroken:
    """What the vacuum leaves, the electric charge first among the charges.

    That is the unbroken charge with the first SU(2) in it, scaled so that the W has charge 1; failing that, the one
    with the first U(1), with that as its unit; failing that, any, in units of the least charge without colour. Its sign
    is such that colour triplets have charges 2/3 and -1/3 rather than -2/3 and 1/3.
    """
    found = unbroken_group(theory.gauge, vacuum_of(theory))
    if not found.charges:
        return found
    charge = found.charges[0]
    weak = first_weak(theory.gauge)
    if not any(charge.abelian) and (weak is None or not any(charge.special[weak])):
        charge = charge.times(1 / _least_charge(theory, found))
    if found.colour and _is_reversed(theory, found, charge):
        charge = charge.times(Fraction(-1))
    return replace(found, charges=(charge, *found.charges[1:]))


def electric_charges(theory: Theory) -> dict[str, tuple[Fraction, ...]]:
    """The electric charge of every component of every field, as the field is written; empty if none is unbroken."""
    left = unbroken(theory)
    if not left.charges:
        return {}
    charge = left.charges[0]
    return {field.name: component_charges(theory.gauge, field.labels, field.charges, charge) for field in theory.fields}


@lru_cache(maxsize=1 << 14)
def component_charges(
    gauge: Gauge, labels: tuple[Label, ...], charges: tuple[Fraction, ...], charge: Combination
) -> tuple[Fraction, ...]:
    """A charge of every component of a field."""
    return tuple(charge.of(charges, weights) for weights in states(gauge, labels))


def _is_reversed(theory: Theory, left: Unbroken, charge: Combination) -> bool:
    """Whether more triplets among the left-handed fermions have the charges of antiquarks than of quarks."""
    colour, score = left.blocks[0], 0
    for field in theory.fermions:
        sign = -1 if field.kind == "right" else 1
        every = component_charges(theory.gauge, field.labels, field.charges, charge)
        for own, weights in zip(every, states(theory.gauge, field.labels), strict=True):
            if tuple(sign * w for w in colour.weight(weights)) in TRIPLET:
                score += (sign * own in QUARKS) - (-sign * own in QUARKS)
    return score < 0


def _least_charge(theory: Theory, left: Unbroken) -> Fraction:
    """The greatest common divisor of the charges of all states without colour, else of all states."""
    plain: set[Fraction] = set()
    coloured: set[Fraction] = set()
    for field in theory.fields:
        every = component_charges(theory.gauge, field.labels, field.charges, left.charges[0])
        for charge, weights in zip(every, states(theory.gauge, field.labels), strict=True):
            neutral = not any(any(block.weight(weights)) for block in left.blocks)
            (plain if neutral else coloured).add(abs(charge))
    chosen = (plain - {0}) or (coloured - {0}) or {Fraction(1)}
    return Fraction(gcd(*(q.numerator for q in chosen)), lcm(*(q.denominator for q in chosen)))
