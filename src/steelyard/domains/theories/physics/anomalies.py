"""Gauge anomalies: each condition by name, with what every field gives to it. All sums are exact.

Fields count as left-handed Weyl fermions (a right-handed R with charge q is R̄ with -q). With N copies of a field,
d its dimensions, T and A the index and the cubic anomaly, and D the product of all its d:

- SU(n)³, n ≥ 3:          Σ N A(R) Π d of the others
- SU(n)²·U(1):            Σ N T(R) Π d of the others · q
- U(1)·U(1)′·U(1)″:       Σ N D q q′ q″
- gravity²·U(1):          Σ N D q
- Witten, every SU(2):    Σ N 2T(R) Π d of the others, which has to be even

SU(n)·U(1)·U(1)′, SU(n)²·SU(m) and SU(2)³ vanish for any fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from math import prod

from steelyard.domains.theories.groups.representation import cached
from steelyard.domains.theories.model.theory import Field, Gauge, QuantumNumbers, Theory

SUPERSCRIPTS = {1: "", 2: "²", 3: "³"}
GRAVITY = "gravity"
WITTEN = "Witten"


@dataclass(frozen=True)
class Anomaly:
    """The sum of one condition. ``total`` of a Witten condition is its parity, 0 or 1."""

    total: Fraction
    by_field: dict[str, Fraction]
    """What each field with a contribution other than 0 gives, all generations together."""

    @property
    def cancels(self) -> bool:
        return self.total == 0


Contribution = Callable[[QuantumNumbers], Fraction]
"""Of one left-handed field, for one generation."""


def conditions(theory: Theory) -> dict[str, Anomaly]:
    """Every condition that the gauge group asks for."""
    fermions = theory.fermions
    return {name: _anomaly(name, contribution, fermions) for name, contribution in contributions(theory.gauge)}


def is_anomaly_free(theory: Theory) -> bool:
    """Whether every anomaly cancels."""
    return all(anomaly.cancels for anomaly in conditions(theory).values())


def contributions(gauge: Gauge) -> Iterator[tuple[str, Contribution]]:
    """The conditions of a gauge group: each name with what one generation of a field gives."""
    for a, (name, n) in enumerate(gauge.special):
        if n > 2:
            yield f"{name}³", lambda field, a=a: others(gauge, field, a) * _cubic(gauge, field, a)
    for a, (name, _) in enumerate(gauge.special):
        for i, charge in enumerate(gauge.abelian):
            yield (
                f"{name}²·{charge}",
                lambda field, a=a, i=i: others(gauge, field, a) * _index(gauge, field, a) * field.charges[i],
            )
    for i, charge in enumerate(gauge.abelian):
        yield f"{GRAVITY}²·{charge}", lambda field, i=i: dimension(gauge, field) * field.charges[i]
    for chosen in combinations_with_replacement(range(len(gauge.abelian)), 3):
        yield (
            _powers([gauge.abelian[i] for i in chosen]),
            lambda field, chosen=chosen: (
                dimension(gauge, field) * prod((field.charges[i] for i in chosen), start=Fraction(1))
            ),
        )
    for a, (name, n) in enumerate(gauge.special):
        if n == 2:
            yield f"{WITTEN} {name}", lambda field, a=a: others(gauge, field, a) * 2 * _index(gauge, field, a)


def dimension(gauge: Gauge, field: QuantumNumbers) -> int:
    """How many states one generation of a field has."""
    return prod(cached(factor.n, label).dimension for factor, label in zip(gauge.special, field.labels, strict=True))


def others(gauge: Gauge, field: QuantumNumbers, a: int) -> int:
    """The dimensions of a field under every SU(n) but number ``a``."""
    return dimension(gauge, field) // cached(gauge.special[a].n, field.labels[a]).dimension


def _index(gauge: Gauge, field: QuantumNumbers, a: int) -> Fraction:
    return cached(gauge.special[a].n, field.labels[a]).index


def _cubic(gauge: Gauge, field: QuantumNumbers, a: int) -> Fraction:
    return cached(gauge.special[a].n, field.labels[a]).anomaly


def _anomaly(name: str, contribution: Contribution, fermions: tuple[Field, ...]) -> Anomaly:
    each = {field.name: field.generations * contribution(field.left_handed) for field in fermions}
    total = sum(each.values(), Fraction(0))
    if name.startswith(WITTEN):
        total %= 2
    return Anomaly(total, {name: value for name, value in each.items() if value})


def _powers(names: list[str]) -> str:
    """``Y²·X`` for Y, Y, X."""
    return "·".join(name + SUPERSCRIPTS[names.count(name)] for name in dict.fromkeys(names))
