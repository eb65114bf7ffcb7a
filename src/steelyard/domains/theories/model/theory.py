"""Gauge theories as plain data: gauge group, fields, vacuum expectation values and Lagrangian terms.

Kinetic terms and gauge couplings are implied and not stored. The constructors do not check whether a theory is
consistent; :func:`steelyard.domains.theories.physics.invariance.flaws` does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple

Label = tuple[int, ...]
"""Dynkin label of an irreducible representation of SU(n): n - 1 non-negative integers; all zeros is the singlet."""

Kind = Literal["left", "right", "scalar"]
TermKind = Literal["phi2", "phi3", "phi4", "mass", "yukawa"]


class SpecialUnitary(NamedTuple):
    """An SU(n) factor of the gauge group."""

    name: str
    n: int


@dataclass(frozen=True, slots=True)
class GaugeGroup:
    """The gauge group: U(1) factors by name, then SU(n) factors."""

    abelian: tuple[str, ...] = ()
    special: tuple[SpecialUnitary, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.abelian, *(factor.name for factor in self.special))


@dataclass(frozen=True, slots=True)
class QuantumNumbers:
    """Quantum numbers of a multiplet: one Dynkin label per SU(n) factor and one charge per U(1) factor."""

    labels: tuple[Label, ...]
    charges: tuple[Fraction, ...]

    @property
    def conjugate(self) -> QuantumNumbers:
        return QuantumNumbers(tuple(label[::-1] for label in self.labels), tuple(-charge for charge in self.charges))

    @property
    def is_real(self) -> bool:
        """Whether the representation is equivalent to its conjugate."""
        return self == self.conjugate

    @property
    def is_neutral(self) -> bool:
        """Whether the multiplet is a singlet of the whole gauge group."""
        return not any(map(any, self.labels)) and not any(self.charges)


@dataclass(frozen=True, slots=True)
class Field:
    """A multiplet: a Weyl fermion of one chirality, or a complex scalar, which has exactly one generation."""

    name: str
    kind: Kind
    labels: tuple[Label, ...]
    charges: tuple[Fraction, ...]
    generations: int = 1

    @property
    def fermion(self) -> bool:
        return self.kind != "scalar"

    @property
    def acts(self) -> QuantumNumbers:
        """Quantum numbers of the field as written."""
        return QuantumNumbers(self.labels, self.charges)

    @property
    def left_handed(self) -> QuantumNumbers:
        """Quantum numbers of the field written as left-handed: those of a right-handed field are conjugated."""
        return self.acts.conjugate if self.kind == "right" else self.acts


@dataclass(frozen=True, slots=True)
class Vev:
    """A vacuum expectation value in GeV: ⟨φ⟩ = value / √2 in one component of a scalar.

    Components index the product of the weight bases of the SU(n) factors, with the last factor varying fastest.
    """

    field: str
    component: int
    value: float


class Leg(NamedTuple):
    """A field or its conjugate as a factor of a term."""

    field: str
    conjugate: bool = False


@dataclass(frozen=True, slots=True)
class Term:
    """A product of fields times a parameter, which is in units of GeV to the power 4 - dimension.

    The Hermitian conjugate is added implicitly if it differs from the term. Fermion legs are left-handed Weyl spinors:
    left-handed fields unconjugated, right-handed fields conjugated. If the legs have several contractions, all of them
    share the parameter.
    """

    legs: tuple[Leg, ...]
    parameter: float


@dataclass(frozen=True)
class Theory:
    """A complete gauge theory. Fields and terms keep the order in which they were written."""

    gauge: GaugeGroup
    fields: tuple[Field, ...]
    vevs: tuple[Vev, ...] = ()
    terms: tuple[Term, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}

    @property
    def fermions(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.fermion)

    @property
    def scalars(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if not field.fermion)

    def leg_quantum_numbers(self, leg: Leg) -> QuantumNumbers:
        """Return the quantum numbers of a leg."""
        acts = self.by_name[leg.field].acts
        return acts.conjugate if leg.conjugate else acts

    def with_fields(self, fields: Iterable[Field]) -> Theory:
        return replace(self, fields=(*self.fields, *fields))


def singlet(gauge: GaugeGroup) -> tuple[Label, ...]:
    """Return the labels of a singlet under every SU(n)."""
    return tuple((0,) * (factor.n - 1) for factor in gauge.special)


def term_kind(theory: Theory, term: Term) -> TermKind | None:
    """Return the kind of a term, or ``None`` if it is not supported.

    Supported terms have two left-handed spinors and at most one scalar, or two to four scalars.
    """
    fields = [theory.by_name[leg.field] for leg in term.legs]
    spinors = [(field, leg) for field, leg in zip(fields, term.legs, strict=True) if field.fermion]
    if not spinors:
        return {2: "phi2", 3: "phi3", 4: "phi4"}.get(len(fields))  # pyright: ignore[reportReturnType]
    left_handed = all(leg.conjugate == (field.kind == "right") for field, leg in spinors)
    if len(spinors) != 2 or not left_handed or len(fields) > 3:
        return None
    return "mass" if len(fields) == 2 else "yukawa"
