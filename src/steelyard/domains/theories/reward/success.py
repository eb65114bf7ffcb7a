"""Properties of a theory that determine its reward, and the success criterion.

Theories without fermions, or with only vector-like pairs, have no anomalies. A success must therefore be chiral: each
gauge factor acts on a multiplet that has no gauge-invariant mass term.

Light charged or coloured states would have been observed, so a success must not have any. A vacuum that breaks
electromagnetism or colour leaves no charged or coloured states. For gauge groups with the Standard Model's factors, a
success must therefore leave both unbroken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from steelyard.domains.theories.comparison.canonical_form import chiral_content
from steelyard.domains.theories.model.theory import QuantumNumbers, Theory
from steelyard.domains.theories.physics.anomalies import Anomaly, anomaly_conditions
from steelyard.domains.theories.physics.breaking import broken_forces, unbroken
from steelyard.domains.theories.physics.mass_spectrum import Spectrum, State, spectrum

LIGHT = 99.0
"""Mass in GeV below which charged states would have been observed."""


@dataclass(frozen=True)
class Findings:
    """A theory with its anomalies, chirality and spectrum, which are computed on first access."""

    theory: Theory
    length: int
    """Number of words in the text."""

    @cached_property
    def anomalies(self) -> dict[str, Anomaly]:
        return anomaly_conditions(self.theory)

    @cached_property
    def chiral(self) -> dict[QuantumNumbers, int]:
        return chiral_content(self.theory)

    @cached_property
    def vector_like_groups(self) -> tuple[str, ...]:
        """Names of the gauge factors that do not act on any chiral multiplet."""
        acting = {name for left_handed in self.chiral for name in groups_acting_on(self.theory, left_handed)}
        return tuple(name for name in self.theory.gauge.names if name not in acting)

    @cached_property
    def spectrum(self) -> Spectrum:
        return spectrum(self.theory)

    @cached_property
    def broken_forces(self) -> tuple[str, ...]:
        """See :func:`~steelyard.domains.theories.physics.breaking.broken_forces`."""
        return broken_forces(self.theory)

    @cached_property
    def light_exotics(self) -> tuple[State, ...]:
        """Exotic states lighter than 99 GeV. Masses are computed only if an electric charge or colour is unbroken."""
        residual = unbroken(self.theory)
        if not (residual.charges or residual.colour):
            return ()
        return tuple(state for state in self.spectrum.states if state.exotic and state.mass < LIGHT)

    @property
    def parameters(self) -> int:
        """Number of free parameters, one per term."""
        return len(self.theory.terms)


def succeeds(findings: Findings, *, max_words: int, max_parameters: int) -> bool:
    """Return whether a theory is a success.

    A success is anomaly-free, has a chiral multiplet under each gauge factor, leaves electromagnetism and colour
    unbroken where the gauge group has them, has no light exotic state, and has at most ``max_words`` words and
    ``max_parameters`` parameters.
    """
    return (
        findings.length <= max_words
        and findings.parameters <= max_parameters
        and all(anomaly.cancels for anomaly in findings.anomalies.values())
        and not findings.vector_like_groups
        and not findings.broken_forces
        and not findings.light_exotics
    )


def groups_acting_on(theory: Theory, multiplet: QuantumNumbers) -> list[str]:
    """Return the names of the gauge factors under which a multiplet is charged."""
    gauge = theory.gauge
    abelian = [name for name, charge in zip(gauge.abelian, multiplet.charges, strict=True) if charge]
    return abelian + [factor.name for factor, label in zip(gauge.special, multiplet.labels, strict=True) if any(label)]
