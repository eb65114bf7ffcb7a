"""What is found of a theory, and when it is a success.

No fermions at all, or none but vector-like pairs, cancel every anomaly. So a success is asked to be chiral: each gauge
group acts on a multiplet that is left when all pairs that could take a mass of their own are struck out.

Charged or coloured states that are light would have been seen. A vacuum that breaks electromagnetism or colour leaves
no such states, so where the gauge group has the Standard Model's factors a success must leave both unbroken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from steelyard.domains.theories.comparison.canonical_form import chiral_content
from steelyard.domains.theories.model.theory import QuantumNumbers, Theory
from steelyard.domains.theories.physics.anomalies import Anomaly, conditions
from steelyard.domains.theories.physics.breaking import broken_forces, unbroken
from steelyard.domains.theories.physics.mass_spectrum import Spectrum, State, spectrum

LIGHT = 99.0
"""GeV. Charged states below it would have been seen."""


@dataclass(frozen=True)
class Findings:
    """A theory and, as far as they are asked for, its anomalies, chirality and spectrum."""

    theory: Theory
    length: int
    """Words of its text."""

    @cached_property
    def anomalies(self) -> dict[str, Anomaly]:
        return conditions(self.theory)

    @cached_property
    def chiral(self) -> dict[QuantumNumbers, int]:
        return chiral_content(self.theory)

    @cached_property
    def vector_like_groups(self) -> tuple[str, ...]:
        """The gauge groups that act on no chiral multiplet."""
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
        """Without an unbroken electric charge or colour there are none, and no masses are computed."""
        residual = unbroken(self.theory)
        if not (residual.charges or residual.colour):
            return ()
        return tuple(state for state in self.spectrum.states if state.exotic and state.mass < LIGHT)

    @property
    def parameters(self) -> int:
        """How many numbers are free: one a term."""
        return len(self.theory.terms)


def succeeds(found: Findings, *, long: int, many: int) -> bool:
    """Every anomaly cancels, each gauge group acts on a chiral multiplet, neither electromagnetism nor colour is broken
    where the gauge group has them, no exotic state is light, and the theory has at most ``long`` words and ``many``
    parameters.
    """
    return (
        found.length <= long
        and found.parameters <= many
        and all(anomaly.cancels for anomaly in found.anomalies.values())
        and not found.vector_like_groups
        and not found.broken_forces
        and not found.light_exotics
    )


def groups_acting_on(theory: Theory, multiplet: QuantumNumbers) -> list[str]:
    """The names of the gauge groups under which it is no singlet."""
    gauge = theory.gauge
    abelian = [name for name, charge in zip(gauge.abelian, multiplet.charges, strict=True) if charge]
    return abelian + [factor.name for factor, label in zip(gauge.special, multiplet.labels, strict=True) if any(label)]
