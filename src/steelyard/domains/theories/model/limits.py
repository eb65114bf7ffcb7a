"""Limits on the size of theories, which determine the vocabulary and the theories that the grammar accepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from math import prod
from typing import Any

from steelyard.domains.theories.groups.representation import cached
from steelyard.domains.theories.model.theory import Field, Label, Theory, term_kind
from steelyard.errors import ConfigError
from steelyard.suggest import nearest_or_all

SMALLEST_GROUP = 2
ALWAYS_ALLOWED_DIMENSION = 4
"""Representations up to the adjoint or this dimension, whichever is larger, are allowed."""


@dataclass(frozen=True)
class Limits:
    """Upper limits on the size of a theory, and ranges for its parameters."""

    groups: int = 4
    """Maximum number of factors of the gauge group."""
    abelian: int = 2
    """Number of U(1) factors."""
    largest: int = 6
    """Largest n of an SU(n) factor."""
    dimension: int = 35
    """Maximum dimension of a representation of one factor; never above that of the adjoint (or 4 for SU(2))."""
    states: int = 48
    """Maximum number of components of one multiplet."""
    charge: int = 30
    """Largest absolute U(1) charge, in units of 1/6."""
    vevs: int = 3
    """Maximum number of scalars with a vacuum expectation value."""
    components: int = 24
    """Maximum number of components of a scalar with a vacuum expectation value."""
    scalars: int = 6
    """Maximum number of scalars, including those with a vacuum expectation value."""
    multiplets: int = 15
    """Maximum total number of fermion and scalar multiplets."""
    generations: int = 6
    """Maximum number of generations of one fermion multiplet."""
    terms: int = 20
    """Maximum number of interaction terms."""
    vev: tuple[int, int] = (0, 16)
    """Smallest and largest power of ten of a vacuum expectation value in GeV."""
    coupling: tuple[int, int] = (-9, 0)
    """Smallest and largest power of ten of a dimensionless coupling (phi4, yukawa)."""
    mass: tuple[int, int] = (-3, 16)
    """Smallest and largest power of ten of a dimensionful coupling (phi2, phi3, mass) in GeV or GeV²."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, tuple):
                object.__setattr__(self, field.name, tuple(value))
                _require_range(field.name, value)
            elif isinstance(value, bool) or not isinstance(value, int) or value < SMALLEST.get(field.name, 0):
                raise ConfigError(
                    f"theories limits: {field.name} = {value!r} must be an integer of at least "
                    f"{SMALLEST.get(field.name, 0)}"
                )
        if not self.abelian and self.largest < SMALLEST_GROUP:
            raise ConfigError(
                f"theories limits: abelian = 0 and largest = {self.largest} allow no gauge group; set abelian = 1 or "
                f"largest = {SMALLEST_GROUP}"
            )

    def power_of_ten(self, kind: str) -> tuple[int, int]:
        """Return the range of powers of ten for a kind of term, or for ``vev``."""
        if kind == "vev":
            return self.vev
        return self.coupling if kind in ("phi4", "yukawa") else self.mass


SMALLEST = {"groups": 1, "dimension": 1, "states": 1, "components": 1, "multiplets": 1, "generations": 1}


def limits_from_options(options: Mapping[str, Any]) -> Limits:
    """Build limits from the ``[domain.options.limits]`` table."""
    known = [field.name for field in fields(Limits)]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ConfigError(f"theories limits: unknown key {unknown[0]!r}; {nearest_or_all(unknown[0], known)}")
    return Limits(**options)


def limit_violations(theory: Theory, limits: Limits) -> Iterator[str]:
    """Yield a message for each limit that a theory exceeds, and one if it has duplicate terms."""
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
            yield f"{name} = {count} exceeds the limit of {getattr(limits, name)}"
    for factor, labels in zip(theory.gauge.special, zip(*(f.labels for f in theory.fields), strict=True), strict=False):
        if too_large := set(labels) - set(labels_within(factor.n, limits.dimension)):
            yield f"dimension: {too_large.pop()} of SU({factor.n}) exceeds the limit of {limits.dimension}"
    if len({term.legs for term in theory.terms}) < len(theory.terms):
        yield "terms: the same term occurs twice"
    numbers = [("vev", vev.value) for vev in theory.vevs]
    numbers += [(str(term_kind(theory, term)), term.parameter) for term in theory.terms]
    for kind, value in numbers:
        least, most = limits.power_of_ten(kind)
        if not 0.99 * 10.0**least < value < 5.01 * 10.0**most:
            yield f"{kind}: parameter {value:g} is outside 10^{least} to 5 · 10^{most}"


def _states(theory: Theory, field: Field) -> int:
    pairs = zip(theory.gauge.special, field.labels, strict=True)
    return prod(cached(factor.n, label).dimension for factor, label in pairs)


@lru_cache(maxsize=256)
def labels_within(n: int, most: int) -> tuple[Label, ...]:
    """Return the allowed labels of SU(n), sorted by dimension."""
    bound = min(most, max(n * n - 1, ALWAYS_ALLOWED_DIMENSION))
    return tuple(sorted(_labels(n, (), bound), key=lambda label: (cached(n, label).dimension, label[::-1])))


def _labels(n: int, start: Label, bound: int) -> Iterator[Label]:
    """Yield all labels within the bound that begin with ``start``. The dimension increases with every entry."""
    if len(start) == n - 1:
        yield start
        return
    entry = 0
    while cached(n, (*start, entry, *(0,) * (n - 2 - len(start)))).dimension <= bound:
        yield from _labels(n, (*start, entry), bound)
        entry += 1


def _require_range(name: str, value: Any) -> None:
    if len(value) != 2 or not all(isinstance(power, int) for power in value) or value[0] > value[1]:
        raise ConfigError(
            f"theories limits: {name} = {list(value)} must be [smallest, largest] powers of ten, as integers"
        )
