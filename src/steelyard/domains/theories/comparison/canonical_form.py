"""A canonical form of theories, independent of how a theory is written.

Two theories have the same canonical form if they differ only in:

- names, order and parameter values
- gauge singlets
- the basis and normalisation of the U(1)s: any invertible transformation of the charges
- the order of equal SU(n) factors
- the choice between R and R̄ for each SU(n), which includes conjugating all fields
- fields with equal quantum numbers versus one field with more generations
- U(1) factors that act trivially or as a combination of others
- the components of vacuum expectation values: it matters which scalars have one, but not in which direction it points
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, permutations, product

from steelyard.domains.theories.groups.rational import reduced_rows
from steelyard.domains.theories.model.theory import Label, QuantumNumbers, Theory, term_kind
from steelyard.domains.theories.physics.invariance import structures

Relabelling = tuple[tuple[int, ...], tuple[bool, ...]]
"""A permutation of the SU(n) factors, and whether each is conjugated."""
FieldType = tuple[tuple[Label, ...], tuple[Fraction, ...]]
_Described = tuple[int, tuple[Label, ...], int, tuple[Fraction, ...]]
"""A field: 0 for fermions or 1 for scalars, labels, multiplicity and charges."""


@dataclass(frozen=True, slots=True, order=True)
class CanonicalForm:
    """The canonical form of a theory. Two theories are equivalent if and only if their canonical forms are equal."""

    special: tuple[int, ...]
    abelian: int
    """Number of independent U(1)s."""
    fermions: tuple[tuple[FieldType, int], ...]
    """Left-handed fermions and their numbers of generations."""
    scalars: tuple[tuple[FieldType, int], ...]
    """Scalars with their multiplicity; each is written as the smaller of itself and its conjugate."""
    vacuum: tuple[int, ...]
    """Indices of the scalars with a vacuum expectation value."""
    terms: tuple[tuple[tuple[int, bool], ...], ...]
    """Legs of each term as (field index, conjugated). Indices count fermions first, then scalars."""


@dataclass(frozen=True, slots=True)
class _Content:
    """The parts of a theory that enter the canonical form; fields with equal quantum numbers are merged."""

    fermions: tuple[tuple[QuantumNumbers, int], ...]
    scalars: tuple[tuple[QuantumNumbers, int], ...]
    vacuum: frozenset[QuantumNumbers]
    terms: frozenset[tuple[tuple[bool, QuantumNumbers], ...]]
    """Legs of each term as (is a fermion, quantum numbers)."""


def canonical(theory: Theory, *, vector_like: bool = True, scalars: bool = True, terms: bool = True) -> CanonicalForm:
    """Return the canonical form, optionally ignoring vector-like fermions, scalars or terms."""
    content = _content(theory, vector_like=vector_like, scalars=scalars, terms=terms and scalars and vector_like)
    sizes = tuple(factor.n for factor in theory.gauge.special)
    return min(
        _written(sizes, content, relabelling, basis)
        for relabelling in _relabellings(sizes, content)
        for basis in _bases(content, relabelling, len(theory.gauge.abelian))
    )


def chiral_content(theory: Theory) -> Counter[QuantumNumbers]:
    """Return the chiral left-handed multiplets with their multiplicities.

    All multiplets that can have gauge-invariant mass terms are removed: pairs of R and R̄, real R, and pairs of the same
    pseudoreal R.
    """
    fermions = _fermions(theory)
    net_counts: Counter[QuantumNumbers] = Counter()
    for multiplet, count in fermions.items():
        if not multiplet.is_real:
            net = count - fermions[multiplet.conjugate]
        elif structures(theory.gauge, (multiplet, multiplet), (0, 0), (1, 1)):
            net = 0
        else:
            net = count % 2
        if net > 0:
            net_counts[multiplet] = net
    return net_counts


def _fermions(theory: Theory) -> Counter[QuantumNumbers]:
    counts: Counter[QuantumNumbers] = Counter()
    for field in theory.fermions:
        if not field.acts.is_neutral:
            counts[field.left_handed] += field.generations
    return counts


def _content(theory: Theory, *, vector_like: bool, scalars: bool, terms: bool) -> _Content:
    fermions = _fermions(theory) if vector_like else chiral_content(theory)
    bosons: Counter[QuantumNumbers] = Counter()
    for field in theory.scalars if scalars else ():
        if not field.acts.is_neutral:
            bosons[field.acts.conjugate if field.acts.conjugate in bosons else field.acts] += 1
    vacuum = (
        frozenset(theory.by_name[vev.field].acts for vev in theory.vevs) if scalars else frozenset[QuantumNumbers]()
    )
    kept: set[tuple[tuple[bool, QuantumNumbers], ...]] = set()
    for term in theory.terms if terms else ():
        legs = tuple((theory.by_name[leg.field].fermion, theory.leg_quantum_numbers(leg)) for leg in term.legs)
        if term_kind(theory, term) and not any(multiplet.is_neutral for _, multiplet in legs):
            kept.add(legs)
    return _Content(
        tuple(fermions.items()),
        tuple(bosons.items()),
        frozenset(multiplet for multiplet in vacuum if not multiplet.is_neutral),
        frozenset(kept),
    )


def _relabellings(sizes: tuple[int, ...], content: _Content) -> Iterator[Relabelling]:
    """Yield all orderings of equal SU(n) factors, sorted by n, with every choice of conjugation that has an effect."""
    rising = sorted(range(len(sizes)), key=lambda a: sizes[a])
    groups = [list(group) for _, group in groupby(rising, key=lambda a: sizes[a])]
    every = [multiplet for multiplet, _ in (*content.fermions, *content.scalars)]
    complex_ = [any(multiplet.labels[a] != multiplet.labels[a][::-1] for multiplet in every) for a in range(len(sizes))]
    flips = list(product(*((False, True) if own else (False,) for own in complex_)))
    for chosen in product(*(permutations(group) for group in groups)):
        order = tuple(a for group in chosen for a in group)
        for flip in flips:
            yield order, flip


def _relabelled(labels: tuple[Label, ...], relabelling: Relabelling) -> tuple[Label, ...]:
    order, flip = relabelling
    return tuple(labels[a][::-1] if flip[a] else labels[a] for a in order)


def _bases(content: _Content, relabelling: Relabelling, abelian: int) -> Iterator[tuple[tuple[Fraction, ...], ...]]:
    """Yield candidate U(1) bases as rows of coefficients of the old charges.

    In each basis, some fields have the charges (1, 0, …), (0, 1, …), …. The candidates for these fields are the
    smallest when ordered by everything except charge.
    """
    described: list[_Described] = [
        (0, _relabelled(multiplet.labels, relabelling), count, multiplet.charges)
        for multiplet, count in content.fermions
        if any(multiplet.charges)
    ]
    for multiplet, count in content.scalars:
        orientations = {multiplet, multiplet.conjugate}
        described += [
            (1, _relabelled(field.labels, relabelling), count, field.charges)
            for field in orientations
            if any(field.charges)
        ]
    described.sort(key=lambda field: field[:3])
    first: list[_Described] = []
    for field in described:
        if _are_independent([*first, field]):
            first.append(field)
    alike = [[field for field in described if field[:3] == wanted[:3]] for wanted in first]
    for chosen in product(*alike):
        if _are_independent(chosen):
            yield _dual([field[3] for field in chosen], abelian)


def _are_independent(described: Sequence[_Described]) -> bool:
    return len(reduced_rows(_row(charges) for *_, charges in described)) == len(described)


def _row(charges: Sequence[Fraction]) -> dict[int, Fraction]:
    return {i: charge for i, charge in enumerate(charges) if charge}


def _dual(chosen: Sequence[tuple[Fraction, ...]], abelian: int) -> tuple[tuple[Fraction, ...], ...]:
    """Return the basis dual to the chosen charges, which span all charges."""
    rank = len(chosen)
    rows = [_row([field_charges[a] for field_charges in chosen]) | {rank + a: Fraction(1)} for a in range(abelian)]
    dual_rows = reduced_rows(rows)[:rank]
    return tuple(tuple(row.get(rank + a, Fraction(0)) for a in range(abelian)) for row in dual_rows)


def _written(
    sizes: tuple[int, ...], content: _Content, relabelling: Relabelling, basis: tuple[tuple[Fraction, ...], ...]
) -> CanonicalForm:
    def field_type(multiplet: QuantumNumbers) -> FieldType:
        charges = tuple(sum((a * q for a, q in zip(row, multiplet.charges, strict=True)), Fraction(0)) for row in basis)
        return _relabelled(multiplet.labels, relabelling), charges

    def scalar_type(multiplet: QuantumNumbers) -> tuple[FieldType, bool]:
        own, other = field_type(multiplet), field_type(multiplet.conjugate)
        return (other, True) if other < own else (own, False)

    fermions = sorted((field_type(multiplet), count) for multiplet, count in content.fermions)
    scalars = sorted((scalar_type(multiplet)[0], count) for multiplet, count in content.scalars)
    place = {own: i for i, (own, _) in enumerate(fermions)}
    scalar_place = {own: i for i, (own, _) in enumerate(scalars)}
    vacuum = sorted({scalar_place[scalar_type(multiplet)[0]] for multiplet in content.vacuum})

    def leg(fermion: bool, multiplet: QuantumNumbers) -> tuple[int, bool]:
        if fermion:
            return place[field_type(multiplet)], False
        own, turned = scalar_type(multiplet)
        return len(fermions) + scalar_place[own], turned

    terms = {_term([leg(*own) for own in legs], len(fermions)) for legs in content.terms}
    return CanonicalForm(
        tuple(sizes[a] for a in relabelling[0]),
        len(basis),
        tuple(fermions),
        tuple(scalars),
        tuple(vacuum),
        tuple(sorted(terms)),
    )


def _term(legs: Iterable[tuple[int, bool]], fermions: int) -> tuple[tuple[int, bool], ...]:
    """Sort the legs of a term. Scalar terms are written as the smaller of the term and its conjugate."""
    ordered = sorted(legs)
    if ordered and ordered[0][0] < fermions:
        return tuple(ordered)
    return min(tuple(ordered), tuple(sorted((place, not turned) for place, turned in ordered)))
