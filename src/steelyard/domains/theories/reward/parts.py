"""Parts of the reward, each a function of :class:`~steelyard.domains.theories.reward.success.Findings`.

Parts are at most 0 unless documented otherwise. The parts in ``EXTRA`` are optional. Custom parts have the same
signature and are specified by import path.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from steelyard.domains.theories.model.theory import Theory, term_kind
from steelyard.domains.theories.physics.breaking import component_charges
from steelyard.domains.theories.physics.mass_spectrum import STANDARD_MODEL
from steelyard.domains.theories.physics.vacuum import first_su2, states
from steelyard.domains.theories.reward.success import LIGHT, Findings

RewardPart = Callable[[Findings], float]

LIGHTEST = 1e-3
"""Minimum mass in GeV. Lighter and massless states are treated as having this mass, so that the logarithm stays finite.
"""
EXACT = 5.0
"""Bonus for each anomaly condition that holds exactly."""
UNIFIED = Fraction(3, 8)
"""sin²θ_W at unification, from 5̄ + 10 of SU(5)."""


def anomalies(findings: Findings) -> float:
    """Return (mean over conditions of [5·1(a = 0) - ln(1 + |a|)] - 5) / 2, or 0 if there are no conditions."""
    return (
        sum(_shortfall(float(one.total)) for one in findings.anomalies.values()) / max(len(findings.anomalies), 1) / 2
    )


def published_anomalies(findings: Findings) -> float:
    """Return (Σ over conditions of [5·1(a = 0) - ln(1 + |a|)] - 5 · number of conditions) / 10."""
    return sum(_shortfall(float(one.total)) for one in findings.anomalies.values()) / 10


def exotics(findings: Findings) -> float:
    """Return -c / (1 + c) with c = (1/20) Σ |log10 m - log10 99| over exotic states lighter than 99 GeV.

    If electromagnetism or colour is broken, return -1, which is lower than the score for any number of exotic states.
    """
    if findings.broken_forces:
        return -1.0
    total = sum(
        state.count * abs(math.log10(max(state.mass, LIGHTEST)) - math.log10(LIGHT)) for state in findings.light_exotics
    )
    return 0.0 - total / (20 + total)


def chirality(findings: Findings) -> float:
    """Return minus the fraction of gauge factors that do not act on any chiral multiplet."""
    return -len(findings.vector_like_groups) / len(findings.theory.gauge.names)


def length(findings: Findings, max_words: int) -> float:
    """Return -20 (ℓ - max_words)/212 for a theory text of ℓ > ``max_words`` words, else 0."""
    return 0.0 - 20.0 * max(findings.length - max_words, 0) / 212


def parameters(findings: Findings, max_parameters: int) -> float:
    """Return -20 (n - max_parameters)/25 for n > ``max_parameters`` parameters, else 0."""
    return 0.0 - 20.0 * max(findings.parameters - max_parameters, 0) / 25


def standard_model(findings: Findings) -> float:
    """Return the fraction of the Standard Model's charged fermions that are present, from 0 to 1.

    All three generations count. Without an unbroken SU(3) × U(1), the fraction is 0.
    """
    residual = findings.spectrum.unbroken
    if not residual.colour or not residual.charges:
        return 0.0
    plain = [state for state in findings.spectrum.states if state.kind == "fermion" and not state.exotic]
    charged = sum(state.count for state in plain if state.charge or state.colour > 1)
    return charged / (3 * len(STANDARD_MODEL))


def massless(findings: Findings) -> float:
    """Return minus the number of kinds of massless charged or coloured states."""
    charged = [state for state in findings.spectrum.states if state.charge or state.colour > 1]
    return -float(sum(not state.mass for state in charged))


def weak_angle(findings: Findings) -> float:
    """Return -|sin²θ_W - 3/8| with sin²θ_W = Σ T₃² / Σ Q² over fermions, or -1 without SU(2) or electric charge."""
    theory, residual = findings.theory, findings.spectrum.unbroken
    weak = first_su2(theory.gauge)
    if weak is None or not residual.charges:
        return -1.0
    isospin, electric = Fraction(0), Fraction(0)
    for field in theory.fermions:
        charges = component_charges(theory.gauge, field.labels, field.charges, residual.charges[0])
        electric += field.generations * sum((charge**2 for charge in charges), Fraction(0))
        weights = states(theory.gauge, field.labels)
        isospin += field.generations * sum((Fraction(own[weak][0], 2) ** 2 for own in weights), Fraction(0))
    return -abs(float(isospin / electric - UNIFIED)) if electric else -1.0


def proton(findings: Findings) -> float:
    """Return minus the number of coloured scalars that can mediate proton decay.

    Such a scalar has Yukawa terms both with two coloured fermions and with one coloured and one colourless fermion.
    """
    joined: dict[str, set[int]] = {}
    for term in findings.theory.terms:
        if term_kind(findings.theory, term) == "yukawa":
            coloured = sum(_coloured(findings.theory, leg.field) for leg in term.legs[:2])
            scalar = term.legs[2].field
            if _coloured(findings.theory, scalar):
                joined.setdefault(scalar, set()).add(coloured)
    return -float(sum({1, 2} <= kinds for kinds in joined.values()))


EXTRA: dict[str, RewardPart] = {
    "standard_model": standard_model,
    "massless": massless,
    "weak_angle": weak_angle,
    "proton": proton,
}


def _shortfall(value: float) -> float:
    """Return the score of an anomaly sum relative to exact cancellation."""
    return -(EXACT + math.log1p(abs(value))) if value else 0.0


def _coloured(theory: Theory, name: str) -> bool:
    """Return whether a field is charged under the first SU(3)."""
    pairs = zip(theory.gauge.special, theory.by_name[name].labels, strict=True)
    return any(label) if (label := next((label for factor, label in pairs if factor.n == 3), None)) else False
