"""Gauge anomalies with the contribution of each field, in exact arithmetic.

All fermions are treated as left-handed: a right-handed R with charge q counts as R̄ with charge -q. A field has N
generations and, under each SU(n), a dimension d, an index T and a cubic anomaly A; D is the product of its dimensions.
The conditions are:

- SU(n)³, n ≥ 3:          Σ N A(R) Π d of the others
- SU(n)²·U(1):            Σ N T(R) Π d of the others · q
- U(1)·U(1)′·U(1)″:       Σ N D q q′ q″
- gravity²·U(1):          Σ N D q
- Witten, every SU(2):    Σ N 2T(R) Π d of the others must be even

SU(n)·U(1)·U(1)′, SU(n)²·SU(m) and SU(2)³ vanish identically.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from math import prod

from steelyard.domains.theories.groups.representation import cached
from steelyard.domains.theories.model.theory import Field, GaugeGroup, QuantumNumbers, Theory

SUPERSCRIPTS = {1: "", 2: "²", 3: "³"}
GRAVITY = "gravity"
WITTEN = "Witten"


@dataclass(frozen=True)
class Anomaly:
    """The result of one anomaly condition. For a Witten condition, ``total`` is the parity, 0 or 1."""

    total: Fraction
    by_field: dict[str, Fraction]
    """Non-zero contribution of each field, summed over its generations."""

    @property
    def cancels(self) -> bool:
        return self.total == 0


Contribution = Callable[[QuantumNumbers], Fraction]
"""Contribution of one generation of a left-handed field."""


def anomaly_conditions(theory: Theory) -> dict[str, Anomaly]:
    """Evaluate every anomaly condition of the gauge group, by name."""
    fermions = theory.fermions
    return {name: _anomaly(name, contribution, fermions) for name, contribution in contributions(theory.gauge)}


def is_anomaly_free(theory: Theory) -> bool:
    """Return whether all anomalies cancel."""
    return all(anomaly.cancels for anomaly in anomaly_conditions(theory).values())


def contributions(gauge: GaugeGroup) -> Iterator[tuple[str, Contribution]]:
    """Yield the name of each anomaly condition with the contribution of one generation of a field."""
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


def dimension(gauge: GaugeGroup, field: QuantumNumbers) -> int:
    """Return the number of components of one generation of a field."""
    return prod(cached(factor.n, label).dimension for factor, label in zip(gauge.special, field.labels, strict=True))


def others(gauge: GaugeGroup, field: QuantumNumbers, a: int) -> int:
    """Return the product of the dimensions of a field under every SU(n) except factor ``a``."""
    return dimension(gauge, field) // cached(gauge.special[a].n, field.labels[a]).dimension


def _index(gauge: GaugeGroup, field: QuantumNumbers, a: int) -> Fraction:
    return cached(gauge.special[a].n, field.labels[a]).index


def _cubic(gauge: GaugeGroup, field: QuantumNumbers, a: int) -> Fraction:
    return cached(gauge.special[a].n, field.labels[a]).anomaly


def _anomaly(name: str, contribution: Contribution, fermions: tuple[Field, ...]) -> Anomaly:
    each = {field.name: field.generations * contribution(field.left_handed) for field in fermions}
    total = sum(each.values(), Fraction(0))
    if name.startswith(WITTEN):
        total %= 2
    return Anomaly(total, {name: value for name, value in each.items() if value})


def _powers(names: list[str]) -> str:
    """Format Y, Y, X as ``Y²·X``."""
    return "·".join(name + SUPERSCRIPTS[names.count(name)] for name in dict.fromkeys(names))
