"""How large a theory may be: what the vocabulary has words for and what the grammar lets through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from math import prod
from typing import Any

from steelyard.domains.theories.groups.representation import cached
from steelyard.domains.theories.model.theory import Field, Label, Theory, term_kind
from steelyard.errors import ConfigError

SMALLEST_GROUP = 2
USUAL_REPRESENTATION = 4
"""Every SU(n) has its representations up to the adjoint, and at least up to this dimension."""


@dataclass(frozen=True)
class Limits:
    """The most of everything."""

    groups: int = 4
    """Factors of the gauge group."""
    abelian: int = 2
    """U(1) factors among them."""
    largest: int = 6
    """The largest n of SU(n)."""
    dimension: int = 35
    """The largest representation of one factor; none is larger than the adjoint, or than 4 for SU(2)."""
    states: int = 48
    """Components of one multiplet."""
    charge: int = 30
    """The largest charge, in sixths."""
    vevs: int = 3
    components: int = 24
    """Components of a scalar that takes a vacuum expectation value."""
    scalars: int = 6
    """Those with a vacuum expectation value among them."""
    multiplets: int = 15
    """Fermions and scalars together."""
    generations: int = 6
    terms: int = 20
    vev: tuple[int, int] = (0, 16)
    """The smallest and the largest power of ten of a vacuum expectation value, in GeV."""
    coupling: tuple[int, int] = (-9, 0)
    """The same of a coupling without dimension (phi4, yukawa)."""
    mass: tuple[int, int] = (-3, 16)
    """The same of a coupling with a dimension (phi2, phi3, mass), in GeV and GeV²."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, tuple):
                object.__setattr__(self, field.name, tuple(value))
                _require_range(field.name, value)
            elif isinstance(value, bool) or not isinstance(value, int) or value < SMALLEST.get(field.name, 0):
                raise ConfigError(
                    f"theories limits: {field.name} = {value!r}; it is a number from {SMALLEST.get(field.name, 0)} on"
                )
        if not self.abelian and self.largest < SMALLEST_GROUP:
            raise ConfigError("theories limits: without U(1) there must be an SU(n): raise abelian or largest")

    def power_of_ten(self, kind: str) -> tuple[int, int]:
        """The range of the parameter of a kind of term, or of a ``vev``."""
        if kind == "vev":
            return self.vev
        return self.coupling if kind in ("phi4", "yukawa") else self.mass


SMALLEST = {"groups": 1, "dimension": 1, "states": 1, "components": 1, "multiplets": 1, "generations": 1}


def limits_from_options(options: Mapping[str, Any]) -> Limits:
    """Limits from plain data."""
    known = [field.name for field in fields(Limits)]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ConfigError(f"theories limits: there is no {unknown[0]!r}; there are: {', '.join(known)}")
    return Limits(**options)


def excesses(theory: Theory, limits: Limits) -> Iterator[str]:
    """What of a theory is more than the limits allow, or is said twice."""
    groups = (*(1 for _ in theory.gauge.abelian), *(factor.n for factor in theory.gauge.special))
    counts = {
        "groups": len(groups),
        "abelian": len(theory.gauge.abelian),
        "largest": max(groups),
        "scalars": len(theory.scalars),
        "multiplets": len(theory.fields),
        "vevs": len(theory.vevs),
        "terms": len(theory.terms),
        "generations": max((field.generations for field in theory.fermions), default=1),
        "charge": max((abs(6 * charge) for field in theory.fields for charge in field.charges), default=0),
        "states": max((_states(theory, field) for field in theory.fields), default=1),
        "components": max((_states(theory, theory.by_name[vev.field]) for vev in theory.vevs), default=1),
    }
    for name, count in counts.items():
        if count > getattr(limits, name):
            yield f"{name}: {count}, at most {getattr(limits, name)}"
    for factor, labels in zip(theory.gauge.special, zip(*(f.labels for f in theory.fields), strict=True), strict=False):
        if too_large := set(labels) - set(labels_within(factor.n, limits.dimension)):
            yield f"dimension: {too_large.pop()} of SU({factor.n})"
    if len({term.legs for term in theory.terms}) < len(theory.terms):
        yield "a term twice"
    numbers = [("vev", vev.value) for vev in theory.vevs]
    numbers += [(str(term_kind(theory, term)), term.parameter) for term in theory.terms]
    for kind, value in numbers:
        least, most = limits.power_of_ten(kind)
        if not 0.99 * 10.0**least < value < 5.01 * 10.0**most:
            yield f"{kind}: a parameter of {value:g}"


def _states(theory: Theory, field: Field) -> int:
    pairs = zip(theory.gauge.special, field.labels, strict=True)
    return prod(cached(factor.n, label).dimension for factor, label in pairs)


@lru_cache(maxsize=256)
def labels_within(n: int, most: int) -> tuple[Label, ...]:
    """The labels of SU(n) that a theory may use, the singlet first, then by dimension."""
    bound = min(most, max(n * n - 1, USUAL_REPRESENTATION))
    return tuple(sorted(_labels(n, (), bound), key=lambda label: (cached(n, label).dimension, label[::-1])))


def _labels(n: int, begun: Label, bound: int) -> Iterator[Label]:
    """A larger entry means a larger dimension, so that each can be raised until it is too much."""
    if len(begun) == n - 1:
        yield begun
        return
    entry = 0
    while cached(n, (*begun, entry, *(0,) * (n - 2 - len(begun)))).dimension <= bound:
        yield from _labels(n, (*begun, entry), bound)
        entry += 1


def _require_range(name: str, value: Any) -> None:
    if len(value) != 2 or not all(isinstance(power, int) for power in value) or value[0] > value[1]:
        raise ConfigError(f"theories limits: {name} = {list(value)}; give the least and the largest power of ten")
