"""The contents of a theory's tables, independent of the output format."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from steelyard.domains.theories.groups.representation import Representation, cached
from steelyard.domains.theories.model.theory import Leg, TermKind, Theory, term_kind
from steelyard.domains.theories.physics.anomalies import anomaly_conditions
from steelyard.domains.theories.physics.breaking import broken_forces, electric_charges
from steelyard.domains.theories.physics.mass_spectrum import Spectrum, State, spectrum

SUPERSCRIPT = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")
KINDS = {"left": "left-handed", "right": "right-handed", "scalar": "scalar"}


@dataclass(frozen=True)
class FieldRow:
    """A field with its representation or charge under each gauge factor."""

    name: str
    kind: str
    representations: tuple[Representation, ...]
    charges: tuple[Fraction, ...]
    generations: int
    electric: tuple[Fraction, ...]
    """Distinct electric charges of the components, highest first."""


@dataclass(frozen=True)
class TermRow:
    """A term of the Lagrangian."""

    kind: TermKind | None
    number: int
    """Position among the terms of this kind, counting from 1; 0 if it is the only one."""
    legs: tuple[Leg, ...]
    parameter: float
    with_conjugate: bool
    """Whether the Hermitian conjugate is a different term."""


@dataclass(frozen=True)
class AnomalyRow:
    """An anomaly condition with the contribution of each fermion and their sum."""

    name: str
    by_field: tuple[Fraction, ...]
    total: Fraction


@dataclass(frozen=True)
class DataSheet:
    """All tables of a theory."""

    theory: Theory
    fields: tuple[FieldRow, ...]
    terms: tuple[TermRow, ...]
    anomalies: tuple[AnomalyRow, ...]
    spectrum: Spectrum

    @property
    def fermions(self) -> tuple[str, ...]:
        """Names of the fermions, which are the columns of the anomaly table."""
        return tuple(field.name for field in self.theory.fermions)

    @property
    def verdict(self) -> str:
        """One-line summary of anomalies, broken forces and exotic states."""
        broken = [row.name for row in self.anomalies if row.total]
        text = f"{len(broken)} of {len(self.anomalies)} conditions fail" if broken else "free of anomalies"
        text = "; ".join([text, *(f"{force} broken" for force in broken_forces(self.theory))])
        exotic = [state for state in self.spectrum.states if state.exotic]
        if not exotic:
            return text
        lightest = min(state.mass for state in exotic)
        return f"{text}; {sum(state.count for state in exotic)} exotic states, the lightest {mass_text(lightest)}"


def data_sheet(theory: Theory) -> DataSheet:
    """Compute all tables of a theory."""
    found = spectrum(theory)
    return DataSheet(theory, _fields(theory), tuple(_terms(theory)), _anomalies(theory), found)


def representations_of(state: State) -> tuple[Representation, ...]:
    """Return the representations of a state under the unbroken SU(k) factors."""
    return tuple(cached(len(label) + 1, label) for label in state.labels)


def mass_parts(mass: float) -> tuple[str, int, str]:
    """Split a mass in GeV into digits, power of ten (0 if omitted) and unit."""
    if mass == 0:
        return "0", 0, ""
    size = abs(mass)
    if size >= 1e5 or size < 1e-9:
        digits, _, exponent = f"{mass:.3e}".partition("e")
        return f"{float(digits):g}", int(exponent), "GeV"
    unit, value = next((u, v) for u, v in (("GeV", 1.0), ("MeV", 1e-3), ("keV", 1e-6), ("eV", 1e-9)) if size >= v)
    return f"{mass / value:.4g}", 0, unit


def mass_text(mass: float) -> str:
    """Format a mass, for example ``173.9 GeV`` or ``2·10⁶ GeV``."""
    digits, exponent, unit = mass_parts(mass)
    power = f"·10{str(exponent).translate(SUPERSCRIPT)}" if exponent else ""
    return f"{digits}{power} {unit}".strip()


def _fields(theory: Theory) -> tuple[FieldRow, ...]:
    electric = electric_charges(theory)
    return tuple(
        FieldRow(
            field.name,
            KINDS[field.kind],
            tuple(cached(factor.n, label) for factor, label in zip(theory.gauge.special, field.labels, strict=True)),
            field.charges,
            field.generations,
            tuple(sorted(set(electric.get(field.name, ())), reverse=True)),
        )
        for field in theory.fields
    )


def _terms(theory: Theory) -> list[TermRow]:
    rows: list[TermRow] = []
    kinds: list[TermKind | None] = [term_kind(theory, term) for term in theory.terms]
    for place, (kind, term) in enumerate(zip(kinds, theory.terms, strict=True)):
        number = kinds[: place + 1].count(kind) if kinds.count(kind) > 1 else 0
        mirrored = sorted(Leg(leg.field, not leg.conjugate) for leg in term.legs)
        rows.append(TermRow(kind, number, term.legs, term.parameter, mirrored != sorted(term.legs)))
    return rows


def _anomalies(theory: Theory) -> tuple[AnomalyRow, ...]:
    names = [field.name for field in theory.fermions]
    return tuple(
        AnomalyRow(name, tuple(anomaly.by_field.get(own, Fraction(0)) for own in names), anomaly.total)
        for name, anomaly in anomaly_conditions(theory).items()
    )
