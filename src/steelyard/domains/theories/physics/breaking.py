"""Identify the electric charge among the unbroken charges and evaluate it for every field component."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm

from steelyard.domains.theories.groups.representation import Label
from steelyard.domains.theories.model.theory import GaugeGroup, Theory
from steelyard.domains.theories.physics.vacuum import (
    ChargeOperator,
    UnbrokenGroup,
    states,
    unbroken_group,
    vacuum_by_field,
)

WEAK_N, COLOUR_N = 2, 3
"""The n of the weak SU(2) and the colour SU(3)."""
TRIPLET = ((1, 0), (-1, 1), (0, -1))
QUARKS = (Fraction(2, 3), Fraction(-1, 3))


def unbroken(theory: Theory) -> UnbrokenGroup:
    """Return the unbroken gauge group, with the electric charge first among its charges.

    The electric charge is the first of these that exists:

    1. an unbroken charge with components in both an SU(2) and a U(1), scaled so that the W has charge 1
    2. one with a component in the first SU(2), scaled in the same way
    3. one with a component in the first U(1), in units of that U(1)
    4. any other, in units of the smallest charge of a colourless state

    The sign is chosen so that colour triplets have charges 2/3 and -1/3 rather than -2/3 and 1/3.
    """
    residual = unbroken_group(theory.gauge, vacuum_by_field(theory))
    if not residual.charges:
        return residual
    mixed = (
        candidate for candidate in residual.charges if any(candidate.abelian) and _isospin(theory.gauge, candidate)
    )
    chosen = next(mixed, residual.charges[0])
    charge = chosen
    if isospin := _isospin(theory.gauge, charge):
        charge = charge.times(1 / (2 * isospin))
    elif not any(charge.abelian):
        charge = charge.times(1 / _least_charge(theory, residual))
    if residual.colour and _is_reversed(theory, residual, charge):
        charge = charge.times(Fraction(-1))
    return replace(
        residual, charges=(charge, *(candidate for candidate in residual.charges if candidate is not chosen))
    )


def broken_forces(theory: Theory) -> tuple[str, ...]:
    """Return the forces that the vacuum breaks: electromagnetism, colour, both or neither.

    Only gauge groups with U(1), SU(2) and SU(3) factors have both forces; for other groups the result is empty.
    Electromagnetism is unbroken if an unbroken generator has components in both a U(1) and an SU(2). Such a generator
    exists if one unbroken charge has a U(1) component and, in addition, an unbroken charge has an SU(2) component or a
    complete SU(2) is unbroken; their sum is the generator. Colour is unbroken if a complete SU(3) factor is unbroken.
    """
    gauge = theory.gauge
    sizes = [factor.n for factor in gauge.special]
    if not gauge.abelian or WEAK_N not in sizes or COLOUR_N not in sizes:
        return ()
    residual = unbroken_group(gauge, vacuum_by_field(theory))
    complete_factors = {sizes[block.factor] for block in residual.blocks if len(block.indices) == sizes[block.factor]}
    weak = WEAK_N in complete_factors or any(_isospin(gauge, charge) for charge in residual.charges)
    photon = weak and any(any(charge.abelian) for charge in residual.charges)
    return (*(() if photon else ("electromagnetism",)), *(() if COLOUR_N in complete_factors else ("colour",)))


def electric_charges(theory: Theory) -> dict[str, tuple[Fraction, ...]]:
    """Return the electric charges of the components of each field as written; empty if no charge is unbroken."""
    residual = unbroken(theory)
    if not residual.charges:
        return {}
    charge = residual.charges[0]
    return {field.name: component_charges(theory.gauge, field.labels, field.charges, charge) for field in theory.fields}


@lru_cache(maxsize=1 << 14)
def component_charges(
    gauge: GaugeGroup, labels: tuple[Label, ...], charges: tuple[Fraction, ...], charge: ChargeOperator
) -> tuple[Fraction, ...]:
    """Evaluate a charge on every component of a field."""
    return tuple(charge.of(charges, weights) for weights in states(gauge, labels))


def _isospin(gauge: GaugeGroup, charge: ChargeOperator) -> Fraction:
    """Return the coefficient of the first SU(2) in a charge, or 0."""
    parts = (
        coefficients[0]
        for factor, coefficients in zip(gauge.special, charge.special, strict=True)
        if factor.n == WEAK_N
    )
    return next(filter(None, parts), Fraction(0))


def _is_reversed(theory: Theory, residual: UnbrokenGroup, charge: ChargeOperator) -> bool:
    """Return whether more left-handed colour triplets have antiquark charges than quark charges."""
    colour, score = residual.blocks[0], 0
    for field in theory.fermions:
        sign = -1 if field.kind == "right" else 1
        component_values = component_charges(theory.gauge, field.labels, field.charges, charge)
        for value, weights in zip(component_values, states(theory.gauge, field.labels), strict=True):
            if tuple(sign * w for w in colour.weight(weights)) in TRIPLET:
                score += (sign * value in QUARKS) - (-sign * value in QUARKS)
    return score < 0


def _least_charge(theory: Theory, residual: UnbrokenGroup) -> Fraction:
    """Return the common divisor of the charges of colourless states, or of coloured states if all colourless ones are
    neutral.
    """
    neutral_values: set[Fraction] = set()
    coloured_values: set[Fraction] = set()
    for field in theory.fields:
        values = component_charges(theory.gauge, field.labels, field.charges, residual.charges[0])
        for charge, weights in zip(values, states(theory.gauge, field.labels), strict=True):
            neutral = not any(any(block.weight(weights)) for block in residual.blocks)
            (neutral_values if neutral else coloured_values).add(abs(charge))
    chosen = (neutral_values - {0}) or (coloured_values - {0}) or {Fraction(1)}
    return Fraction(gcd(*(q.numerator for q in chosen)), lcm(*(q.denominator for q in chosen)))
