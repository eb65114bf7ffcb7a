"""The spectrum: what there is after symmetry breaking, with electric charge, colour, mass and what it is made of."""

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
"""Colour and electric charge of the charged fermions that come three times."""
SAME = 1e-6
"""Masses that differ by less than this part are one."""
LEAST_SHARE = 0.01
"""What a field has to have of a state to be named among what it is made of."""


class MassMultiplet(NamedTuple):
    """An irreducible multiplet of the unbroken group, ``count`` times."""

    charges: tuple[Fraction, ...]
    labels: tuple[Label, ...]
    mass: float
    count: int
    shares: dict[str, float]
    origin: int


@dataclass(frozen=True)
class State:
    """A particle with its antiparticle, ``count`` times."""

    kind: Literal["fermion", "scalar"]
    nature: Nature
    charges: tuple[Fraction, ...]
    """Under every unbroken U(1), the electric charge first."""
    labels: tuple[Label, ...]
    """Under every unbroken SU(k), colour first."""
    mass: float
    """GeV; of a tachyon minus the root of minus its square."""
    count: int
    fields: tuple[str, ...]
    """What it is made of, the largest share first."""
    colour: int
    """The dimension under the unbroken SU(3), 1 if there is none."""
    terms: tuple[int, ...] = ()
    """The numbers of the terms that its mass comes from."""
    exotic: bool = False
    """Has electric charge or colour and is not a Standard Model fermion: of these the lightest three of each sort are
    not exotic. Where no electric charge is unbroken, quarks cannot be identified and every coloured state is exotic.
    """

    @property
    def charge(self) -> Fraction:
        """The electric charge; 0 if no charge is unbroken."""
        return self.charges[0] if self.charges else Fraction(0)

    @property
    def dimension(self) -> int:
        return prod(cached(len(label) + 1, label).dimension for label in self.labels)


@dataclass(frozen=True)
class Spectrum:
    """All states, the lightest first."""

    states: tuple[State, ...]
    unbroken: UnbrokenGroup
    tadpole: float
    """The largest slope of the potential in the vacuum, in GeV³, where it should have an extremum."""


def spectrum(theory: Theory) -> Spectrum:
    """The fermions and scalars of a theory in its vacuum; Goldstone modes are not among them."""
    residual = unbroken(theory)
    matrix, slope_D = scalar_matrix(theory)
    fermions = _paired(_multiplets(fermion_eigenstates(theory, residual)), "fermion", colour=residual.colour)
    scalars = _paired(_multiplets(scalar_eigenstates(theory, residual, matrix)), "scalar", colour=residual.colour)
    found = sorted([*fermions, *scalars], key=lambda state: (state.mass, state.kind, state.charges, state.labels))
    tadpole = float(np.abs(slope_D).max(initial=0.0))
    return Spectrum(tuple(_marked(found)), residual, tadpole)


def light_exotics(theory: Theory, below: float = 99.0) -> tuple[State, ...]:
    """The exotic states lighter than this many GeV."""
    return tuple(state for state in spectrum(theory).states if state.exotic and state.mass < below)


def _paired(found: Iterable[MassMultiplet], kind: Literal["fermion", "scalar"], *, colour: bool) -> Iterator[State]:
    """Particles with their antiparticles; a fermion without mass may have none."""
    every = list(found)
    by_key: dict[tuple[tuple[Fraction, ...], tuple[Label, ...]], list[MassMultiplet]] = defaultdict(list)
    for own in every:
        by_key[own.charges, own.labels].append(own)
    for own in every:
        conjugate = tuple(-q for q in own.charges), tuple(label[::-1] for label in own.labels)
        dimension = cached(3, own.labels[0]).dimension if colour else 1
        terms = tuple(number for number in range(own.origin.bit_length()) if own.origin >> number & 1)
        state = State(kind, "weyl", own.charges, own.labels, own.mass, own.count, _names([own]), dimension, terms)
        if conjugate == (own.charges, own.labels):
            yield replace(state, nature="real" if kind == "scalar" else "majorana" if own.mass else "weyl")
            continue
        partners = [other for other in by_key[conjugate] if other.mass == own.mass]
        both = min(own.count, sum(other.count for other in partners))
        if both and _written(own.charges, own.labels, kind):
            nature: Nature = "dirac" if kind == "fermion" else "complex"
            yield replace(state, nature=nature, count=both, fields=_names([own, *partners]))
        if own.count > both:
            yield replace(state, count=own.count - both)


def _written(charges: tuple[Fraction, ...], labels: tuple[Label, ...], kind: str) -> bool:
    """Whether a multiplet and not its conjugate is the one to be named: 3 rather than 3̄, e⁻ rather than e⁺, H⁺."""
    if labels != (barred := tuple(label[::-1] for label in labels)):
        return labels > barred
    signed = charges if kind == "scalar" else tuple(-q for q in charges)
    return signed > tuple(-q for q in signed)


def _names(multiplets: Iterable[MassMultiplet]) -> tuple[str, ...]:
    shares: dict[str, float] = defaultdict(float)
    for multiplet in multiplets:
        for name, part in multiplet.shares.items():
            shares[name] += part
    kept = [name for name, part in shares.items() if part > LEAST_SHARE]
    return tuple(sorted(kept, key=lambda name: (-round(shares[name], 6), name)))


def _equal(one: float, other: float) -> bool:
    return abs(one - other) <= SAME * max(abs(one), abs(other))


def _marked(found: Iterable[State]) -> Iterator[State]:
    """Exotic states marked; the lightest three of each sort that the Standard Model has are not."""
    remaining = dict.fromkeys(STANDARD_MODEL, 3)
    for state in found:
        if state.charge == 0 and state.colour == 1:
            yield state
            continue
        sort = _sort(state)
        known = min(remaining[sort], state.count) if sort else 0
        if sort and known:
            remaining[sort] -= known
            yield replace(state, count=known)
        if state.count > known:
            yield replace(state, count=state.count - known, exotic=True)


def _sort(state: State) -> tuple[int, Fraction] | None:
    """Which charged fermion of the Standard Model it could be."""
    if state.nature != "dirac" or state.dimension != state.colour:
        return None
    for sort in ((state.colour, state.charge), (state.colour, -state.charge)):
        if sort in STANDARD_MODEL and (state.colour == 1 or sort[1] == _triplet_charge(state)):
            return sort
    return None


def _triplet_charge(state: State) -> Fraction:
    """The charge of the one of particle and antiparticle that is a triplet."""
    return state.charge if state.labels[0] == (1, 0) else -state.charge


def _multiplets(eigenstates: Iterable[MassEigenstate]) -> Iterator[MassMultiplet]:
    """Those of equal mass together."""
    by_key: dict[MultipletKey, list[MassEigenstate]] = defaultdict(list)
    for eigenstate in eigenstates:
        by_key[eigenstate.key].append(eigenstate)
    for key, own in by_key.items():
        for cluster in _clusters(sorted(own, key=lambda eigenstate: eigenstate.mass)):
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
    """Runs of equal mass."""
    cluster: list[MassEigenstate] = []
    for eigenstate in eigenstates:
        if cluster and not _equal(eigenstate.mass, cluster[-1].mass):
            yield cluster
            cluster = []
        cluster.append(eigenstate)
    if cluster:
        yield cluster
