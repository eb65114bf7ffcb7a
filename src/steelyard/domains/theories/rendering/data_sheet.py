"""What there is to show of a theory, before it is set in any form: tables of plain values and the terms one by one."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from steelyard.domains.theories.groups.representation import Representation, cached
from steelyard.domains.theories.model.theory import Leg, TermKind, Theory, term_kind
from steelyard.domains.theories.physics.anomalies import conditions
from steelyard.domains.theories.physics.breaking import broken_forces, electric_charges
from steelyard.domains.theories.physics.mass_spectrum import Spectrum, State, spectrum

SUPERSCRIPT = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")
KINDS = {"left": "left-handed", "right": "right-handed", "scalar": "scalar"}


@dataclass(frozen=True)
class FieldRow:
    """A field with one representation and one charge for each factor of the gauge group."""

    name: str
    kind: str
    representations: tuple[Representation, ...]
    charges: tuple[Fraction, ...]
    generations: int
    electric: tuple[Fraction, ...]
    """The electric charges among its components, the highest first."""


@dataclass(frozen=True)
class TermRow:
    """A term: its kind, its number among those of its kind (0 if there is no other), its legs, its parameter, and
    whether its Hermitian conjugate is another term.
    """

    kind: TermKind | None
    number: int
    legs: tuple[Leg, ...]
    parameter: float
    with_conjugate: bool


@dataclass(frozen=True)
class AnomalyRow:
    """A condition, what each fermion gives to it in their order, and the sum."""

    name: str
    by_field: tuple[Fraction, ...]
    total: Fraction


@dataclass(frozen=True)
class DataSheet:
    """Everything about a theory that a page shows."""

    theory: Theory
    fields: tuple[FieldRow, ...]
    terms: tuple[TermRow, ...]
    anomalies: tuple[AnomalyRow, ...]
    spectrum: Spectrum

    @property
    def fermions(self) -> tuple[str, ...]:
        """The columns of the anomalies."""
        return tuple(field.name for field in self.theory.fermions)

    @property
    def verdict(self) -> str:
        """One line on anomalies, broken forces and exotic states."""
        broken = [row.name for row in self.anomalies if row.total]
        said = f"{len(broken)} of {len(self.anomalies)} conditions fail" if broken else "free of anomalies"
        said = "; ".join([said, *(f"{force} broken" for force in broken_forces(self.theory))])
        exotic = [state for state in self.spectrum.states if state.exotic]
        if not exotic:
            return said
        lightest = min(state.mass for state in exotic)
        return f"{said}; {sum(state.count for state in exotic)} exotic states, the lightest {mass_text(lightest)}"


def data_sheet(theory: Theory) -> DataSheet:
    """What there is to show."""
    found = spectrum(theory)
    return DataSheet(theory, _fields(theory), tuple(_terms(theory)), _anomalies(theory), found)


def representation_names(state: State) -> tuple[Representation, ...]:
    """Under every unbroken SU(k)."""
    return tuple(cached(len(label) + 1, label) for label in state.labels)


def mass_parts(mass: float) -> tuple[str, int, str]:
    """Digits, power of ten (0: none to be written) and unit of a mass in GeV."""
    if mass == 0:
        return "0", 0, ""
    size = abs(mass)
    if size >= 1e5 or size < 1e-9:
        digits, _, exponent = f"{mass:.3e}".partition("e")
        return f"{float(digits):g}", int(exponent), "GeV"
    unit, value = next((u, v) for u, v in (("GeV", 1.0), ("MeV", 1e-3), ("keV", 1e-6), ("eV", 1e-9)) if size >= v)
    return f"{mass / value:.4g}", 0, unit


def mass_text(mass: float) -> str:
    """``173.9 GeV``, ``2·10⁶ GeV``."""
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
        for name, anomaly in conditions(theory).items()
    )
