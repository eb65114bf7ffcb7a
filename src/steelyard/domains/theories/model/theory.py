"""Gauge theories as plain data: groups, fields, what takes a vacuum expectation value, and the terms of the Lagrangian.

Kinetic terms and gauge couplings follow from the rest and are not written down. Constructors check shapes only;
:func:`steelyard.domains.theories.physics.invariance.flaws` finds the terms that are not allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple

Label = tuple[int, ...]
"""The Dynkin label of an irreducible representation of SU(n): n - 1 numbers, none negative; all 0 is the singlet."""

Kind = Literal["left", "right", "scalar"]
TermKind = Literal["phi2", "phi3", "phi4", "mass", "yukawa"]


class Special(NamedTuple):
    """A factor SU(n) of the gauge group."""

    name: str
    n: int


@dataclass(frozen=True, slots=True)
class Gauge:
    """The gauge group: U(1) factors by name, then SU(n) factors."""

    abelian: tuple[str, ...] = ()
    special: tuple[Special, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.abelian, *(factor.name for factor in self.special))


@dataclass(frozen=True, slots=True)
class QuantumNumbers:
    """How something transforms: one label for each SU(n), one charge for each U(1)."""

    labels: tuple[Label, ...]
    charges: tuple[Fraction, ...]

    @property
    def conjugate(self) -> QuantumNumbers:
        return QuantumNumbers(tuple(label[::-1] for label in self.labels), tuple(-charge for charge in self.charges))

    @property
    def is_real(self) -> bool:
        """Whether it equals its conjugate."""
        return self == self.conjugate

    @property
    def is_neutral(self) -> bool:
        """Whether no factor of the gauge group acts on it."""
        return not any(map(any, self.labels)) and not any(self.charges)


@dataclass(frozen=True, slots=True)
class Field:
    """A multiplet: a Weyl fermion of one chirality, or a complex scalar (which has one generation)."""

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
        """How the field itself transforms."""
        return QuantumNumbers(self.labels, self.charges)

    @property
    def left_handed(self) -> QuantumNumbers:
        """How it transforms written as a left-handed field: a right-handed one is conjugated."""
        return self.acts.conjugate if self.kind == "right" else self.acts


@dataclass(frozen=True, slots=True)
class Vev:
    """A vacuum expectation value in GeV: ⟨φ⟩ = value / √2 in one component of a scalar.

    Components are counted over the product of the weight bases of the SU(n) factors, the last factor running fastest.
    """

    field: str
    component: int
    value: float


class Leg(NamedTuple):
    """A field in a term, or its conjugate."""

    field: str
    conjugate: bool = False


@dataclass(frozen=True, slots=True)
class Term:
    """A product of fields with a parameter, in GeV to the power 4 - dimension; its Hermitian conjugate is added where
    that is another term. Fermion legs are left-handed Weyl spinors: a left-handed field as it is, a right-handed one
    conjugated. Where the legs can be contracted in several ways, each way comes with the same parameter.
    """

    legs: tuple[Leg, ...]
    parameter: float


@dataclass(frozen=True)
class Theory:
    """Everything there is to say; the order of fields and terms is the order they were written in."""

    gauge: Gauge
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

    def leg(self, leg: Leg) -> QuantumNumbers:
        """How a leg of a term transforms."""
        acts = self.by_name[leg.field].acts
        return acts.conjugate if leg.conjugate else acts

    def with_fields(self, fields: Iterable[Field]) -> Theory:
        return replace(self, fields=(*self.fields, *fields))


def singlet(gauge: Gauge) -> tuple[Label, ...]:
    """The labels of what no SU(n) acts on."""
    return tuple((0,) * (factor.n - 1) for factor in gauge.special)


def term_kind(theory: Theory, term: Term) -> TermKind | None:
    """What kind of term the legs make, ``None`` if none that is known: two left-handed spinors and at most one scalar,
    or two to four scalars.
    """
    fields = [theory.by_name[leg.field] for leg in term.legs]
    spinors = [(field, leg) for field, leg in zip(fields, term.legs, strict=True) if field.fermion]
    if not spinors:
        return {2: "phi2", 3: "phi3", 4: "phi4"}.get(len(fields))  # pyright: ignore[reportReturnType]
    left_handed = all(leg.conjugate == (field.kind == "right") for field, leg in spinors)
    if len(spinors) != 2 or not left_handed or len(fields) > 3:
        return None
    return "mass" if len(fields) == 2 else "yukawa"
