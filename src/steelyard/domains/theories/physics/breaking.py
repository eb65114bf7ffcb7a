"""Which of the charges that the vacuum leaves is electric, and what it is for every component."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm

from steelyard.domains.theories.groups.representation import Label
from steelyard.domains.theories.model.theory import Gauge, Theory
from steelyard.domains.theories.physics.vacuum import ChargeOperator, UnbrokenGroup, states, unbroken_group, vacuum_of

WEAK, COLOURED = 2, 3
"""n of the SU(n) of the weak force and of colour."""
TRIPLET = ((1, 0), (-1, 1), (0, -1))
QUARKS = (Fraction(2, 3), Fraction(-1, 3))


def unbroken(theory: Theory) -> UnbrokenGroup:
    """What the vacuum leaves, the electric charge first among the charges.

    That is the unbroken charge with parts in an SU(2) and a U(1); failing that, one with the first SU(2) in it. Both
    are scaled so that the W has charge 1. Failing that, it is the one with the first U(1), with that as its unit;
    failing that, any, in units of the least charge without colour. Its sign is such that colour triplets have charges
    2/3 and -1/3 rather than -2/3 and 1/3.
    """
    found = unbroken_group(theory.gauge, vacuum_of(theory))
    if not found.charges:
        return found
    mixed = (own for own in found.charges if any(own.abelian) and _isospin(theory.gauge, own))
    chosen = next(mixed, found.charges[0])
    charge = chosen
    if isospin := _isospin(theory.gauge, charge):
        charge = charge.times(1 / (2 * isospin))
    elif not any(charge.abelian):
        charge = charge.times(1 / _least_charge(theory, found))
    if found.colour and _is_reversed(theory, found, charge):
        charge = charge.times(Fraction(-1))
    return replace(found, charges=(charge, *(own for own in found.charges if own is not chosen)))


def broken_forces(theory: Theory) -> tuple[str, ...]:
    """Which of electromagnetism and colour the vacuum breaks. Only a gauge group with U(1), SU(2) and SU(3) among its
    factors has them to break.

    Electromagnetism is an unbroken generator with parts in both a U(1) and an SU(2). There is one if some unbroken
    charge has a part in a U(1), and some charge has a part in an SU(2) or a whole SU(2) is unbroken: take their sum.
    Colour is a whole unbroken SU(3) factor.
    """
    gauge = theory.gauge
    sizes = [factor.n for factor in gauge.special]
    if not gauge.abelian or WEAK not in sizes or COLOURED not in sizes:
        return ()
    found = unbroken_group(gauge, vacuum_of(theory))
    whole = {sizes[block.factor] for block in found.blocks if len(block.indices) == sizes[block.factor]}
    weak = WEAK in whole or any(_isospin(gauge, charge) for charge in found.charges)
    photon = weak and any(any(charge.abelian) for charge in found.charges)
    return (*(() if photon else ("electromagnetism",)), *(() if COLOURED in whole else ("colour",)))


def electric_charges(theory: Theory) -> dict[str, tuple[Fraction, ...]]:
    """The electric charge of every component of every field, as the field is written; empty if none is unbroken."""
    residual = unbroken(theory)
    if not residual.charges:
        return {}
    charge = residual.charges[0]
    return {field.name: component_charges(theory.gauge, field.labels, field.charges, charge) for field in theory.fields}


@lru_cache(maxsize=1 << 14)
def component_charges(
    gauge: Gauge, labels: tuple[Label, ...], charges: tuple[Fraction, ...], charge: ChargeOperator
) -> tuple[Fraction, ...]:
    """A charge of every component of a field."""
    return tuple(charge.of(charges, weights) for weights in states(gauge, labels))


def _isospin(gauge: Gauge, charge: ChargeOperator) -> Fraction:
    """The coefficient of the first SU(2) that a charge has a part in; 0 if none."""
    parts = (own[0] for factor, own in zip(gauge.special, charge.special, strict=True) if factor.n == WEAK)
    return next(filter(None, parts), Fraction(0))


def _is_reversed(theory: Theory, residual: UnbrokenGroup, charge: ChargeOperator) -> bool:
    """Whether more triplets among the left-handed fermions have the charges of antiquarks than of quarks."""
    colour, score = residual.blocks[0], 0
    for field in theory.fermions:
        sign = -1 if field.kind == "right" else 1
        every = component_charges(theory.gauge, field.labels, field.charges, charge)
        for own, weights in zip(every, states(theory.gauge, field.labels), strict=True):
            if tuple(sign * w for w in colour.weight(weights)) in TRIPLET:
                score += (sign * own in QUARKS) - (-sign * own in QUARKS)
    return score < 0


def _least_charge(theory: Theory, residual: UnbrokenGroup) -> Fraction:
    """The greatest common divisor of the charges of all states without colour, else of all states."""
    plain: set[Fraction] = set()
    coloured: set[Fraction] = set()
    for field in theory.fields:
        every = component_charges(theory.gauge, field.labels, field.charges, residual.charges[0])
        for charge, weights in zip(every, states(theory.gauge, field.labels), strict=True):
            neutral = not any(any(block.weight(weights)) for block in residual.blocks)
            (plain if neutral else coloured).add(abs(charge))
    chosen = (plain - {0}) or (coloured - {0}) or {Fraction(1)}
    return Fraction(gcd(*(q.numerator for q in chosen)), lcm(*(q.denominator for q in chosen)))
