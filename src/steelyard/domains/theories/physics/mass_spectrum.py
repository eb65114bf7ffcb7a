"""The mass spectrum after symmetry breaking: electric charge, colour, mass and field composition of every state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from math import prod
from operator import or_
from typing import Literal, NamedTuple

import numpy as np

from steelyard.domains.theories.groups.representation import Label, cached
from steelyard.domains.theories.model.theory import Theory
from steelyard.domains.theories.physics.breaking import unbroken
from steelyard.domains.theories.physics.highest_weights import MultipletKey
from steelyard.domains.theories.physics.mass_eigenstates import MassEigenstate, fermion_eigenstates, scalar_eigenstates
from steelyard.domains.theories.physics.mass_matrices import scalar_matrix
from steelyard.domains.theories.physics.vacuum import UnbrokenGroup

Nature = Literal["dirac", "majorana", "weyl", "complex", "real"]
STANDARD_MODEL = {(1, Fraction(-1)), (3, Fraction(2, 3)), (3, Fraction(-1, 3))}
"""Colour and electric charge of the charged Standard Model fermions, each with three generations."""
EQUAL_MASSES = 1e-6
"""Masses whose relative difference is below this value count as equal."""
MIN_SHARE = 0.01
"""Minimum fraction of a state that a field must contribute to be listed in its composition."""


class MassMultiplet(NamedTuple):
    """``count`` degenerate multiplets with the same unbroken quantum numbers."""

    charges: tuple[Fraction, ...]
    labels: tuple[Label, ...]
    mass: float
    count: int
    shares: dict[str, float]
    origin: int


@dataclass(frozen=True)
class State:
    """``count`` degenerate particles with their antiparticles."""

    kind: Literal["fermion", "scalar"]
    nature: Nature
    charges: tuple[Fraction, ...]
    """Charges under the unbroken U(1) factors, electric charge first."""
    labels: tuple[Label, ...]
    """Dynkin labels under the unbroken SU(k) factors, colour first."""
    mass: float
    """Mass in GeV; -√(-m²) for a tachyon."""
    count: int
    fields: tuple[str, ...]
    """Fields that make up the state, largest contribution first."""
    colour: int
    """Dimension under the unbroken SU(3), or 1 if there is none."""
    terms: tuple[int, ...] = ()
    """Indices of the terms that contribute to the mass."""
    exotic: bool = False
    """Whether the state has electric charge or colour and is not a Standard Model fermion. The lightest three of each
    kind count as Standard Model fermions. Without an unbroken electric charge, quarks cannot be identified and every
    coloured state is exotic.
    """

    @property
    def charge(self) -> Fraction:
        """Electric charge, or 0 if no charge is unbroken."""
        return self.charges[0] if self.charges else Fraction(0)

    @property
    def dimension(self) -> int:
        return prod(cached(len(label) + 1, label).dimension for label in self.labels)


@dataclass(frozen=True)
class Spectrum:
    """All fermion and scalar states, lightest first."""

    states: tuple[State, ...]
    unbroken: UnbrokenGroup
    tadpole: float
    """Largest gradient component of the potential in the vacuum, in GeV³; 0 at an extremum."""


def spectrum(theory: Theory) -> Spectrum:
    """Compute the fermions and scalars of a theory in its vacuum, without Goldstone modes."""
    residual = unbroken(theory)
    matrix, gradient_D = scalar_matrix(theory)
    fermions = _with_antiparticles(
        _multiplets(fermion_eigenstates(theory, residual)), "fermion", colour=residual.colour
    )
    scalars = _with_antiparticles(
        _multiplets(scalar_eigenstates(theory, residual, matrix)), "scalar", colour=residual.colour
    )
    found = sorted([*fermions, *scalars], key=lambda state: (state.mass, state.kind, state.charges, state.labels))
    tadpole = float(np.abs(gradient_D).max(initial=0.0))
    return Spectrum(tuple(_with_exotics_marked(found)), residual, tadpole)


def light_exotics(theory: Theory, below: float = 99.0) -> tuple[State, ...]:
    """Return the exotic states lighter than ``below`` GeV."""
    return tuple(state for state in spectrum(theory).states if state.exotic and state.mass < below)


def _with_antiparticles(
    unpaired: Iterable[MassMultiplet], kind: Literal["fermion", "scalar"], *, colour: bool
) -> Iterator[State]:
    """Pair particles with their antiparticles. A massless fermion may have no partner."""
    multiplets = list(unpaired)
    by_key: dict[tuple[tuple[Fraction, ...], tuple[Label, ...]], list[MassMultiplet]] = defaultdict(list)
    for multiplet in multiplets:
        by_key[multiplet.charges, multiplet.labels].append(multiplet)
    for multiplet in multiplets:
        conjugate = tuple(-q for q in multiplet.charges), tuple(label[::-1] for label in multiplet.labels)
        dimension = cached(3, multiplet.labels[0]).dimension if colour else 1
        terms = tuple(number for number in range(multiplet.origin.bit_length()) if multiplet.origin >> number & 1)
        state = State(
            kind,
            "weyl",
            multiplet.charges,
            multiplet.labels,
            multiplet.mass,
            multiplet.count,
            _names([multiplet]),
            dimension,
            terms,
        )
        if conjugate == (multiplet.charges, multiplet.labels):
            yield replace(state, nature="real" if kind == "scalar" else "majorana" if multiplet.mass else "weyl")
            continue
        partners = [other for other in by_key[conjugate] if other.mass == multiplet.mass]
        paired = min(multiplet.count, sum(other.count for other in partners))
        if paired and _is_named_particle(multiplet.charges, multiplet.labels, kind):
            nature: Nature = "dirac" if kind == "fermion" else "complex"
            yield replace(state, nature=nature, count=paired, fields=_names([multiplet, *partners]))
        if multiplet.count > paired:
            yield replace(state, count=multiplet.count - paired)


def _is_named_particle(charges: tuple[Fraction, ...], labels: tuple[Label, ...], kind: str) -> bool:
    """Return whether a multiplet, rather than its conjugate, names the particle: 3 not 3̄, e⁻ not e⁺, H⁺ not H⁻."""
    if labels != (barred := tuple(label[::-1] for label in labels)):
        return labels > barred
    signed = charges if kind == "scalar" else tuple(-q for q in charges)
    return signed > tuple(-q for q in signed)


def _names(multiplets: Iterable[MassMultiplet]) -> tuple[str, ...]:
    shares: dict[str, float] = defaultdict(float)
    for multiplet in multiplets:
        for name, part in multiplet.shares.items():
            shares[name] += part
    kept = [name for name, part in shares.items() if part > MIN_SHARE]
    return tuple(sorted(kept, key=lambda name: (-round(shares[name], 6), name)))


def _equal(one: float, other: float) -> bool:
    return abs(one - other) <= EQUAL_MASSES * max(abs(one), abs(other))


def _with_exotics_marked(found: Iterable[State]) -> Iterator[State]:
    """Mark exotic states, except the lightest three of each kind of Standard Model fermion."""
    remaining = dict.fromkeys(STANDARD_MODEL, 3)
    for state in found:
        if state.charge == 0 and state.colour == 1:
            yield state
            continue
        species = _standard_model_kind(state)
        standard = min(remaining[species], state.count) if species else 0
        if species and standard:
            remaining[species] -= standard
            yield replace(state, count=standard)
        if state.count > standard:
            yield replace(state, count=state.count - standard, exotic=True)


def _standard_model_kind(state: State) -> tuple[int, Fraction] | None:
    """Return the colour and charge of the Standard Model fermion that a state matches, if any."""
    if state.nature != "dirac" or state.dimension != state.colour:
        return None
    for kind in ((state.colour, state.charge), (state.colour, -state.charge)):
        if kind in STANDARD_MODEL and (state.colour == 1 or kind[1] == _triplet_charge(state)):
            return kind
    return None


def _triplet_charge(state: State) -> Fraction:
    """Return the charge of the particle or antiparticle, whichever is the colour triplet."""
    return state.charge if state.labels[0] == (1, 0) else -state.charge


def _multiplets(eigenstates: Iterable[MassEigenstate]) -> Iterator[MassMultiplet]:
    """Group mass eigenstates with equal quantum numbers and masses."""
    by_key: dict[MultipletKey, list[MassEigenstate]] = defaultdict(list)
    for eigenstate in eigenstates:
        by_key[eigenstate.key].append(eigenstate)
    for key, members in by_key.items():
        for cluster in _clusters(sorted(members, key=lambda eigenstate: eigenstate.mass)):
            origin = reduce(or_, (eigenstate.origin for eigenstate in cluster))
            shares = _mean_shares(cluster)
            yield MassMultiplet(key.charges, key.labels, cluster[-1].mass, len(cluster), shares, origin)


def _mean_shares(eigenstates: Sequence[MassEigenstate]) -> dict[str, float]:
    shares: dict[str, float] = defaultdict(float)
    for eigenstate in eigenstates:
        for name, part in eigenstate.shares.items():
            shares[name] += part / len(eigenstates)
    return shares


def _clusters(eigenstates: list[MassEigenstate]) -> Iterator[list[MassEigenstate]]:
    """Yield runs of equal mass from a sorted list."""
    cluster: list[MassEigenstate] = []
    for eigenstate in eigenstates:
        if cluster and not _equal(eigenstate.mass, cluster[-1].mass):
            yield cluster
            cluster = []
        cluster.append(eigenstate)
    if cluster:
        yield cluster
