"""Index contractions of terms, for programs that sum over repeated indices.

Fundamental representations are contracted with δ (with an antifundamental) or ε. All other representations use a
numbered invariant tensor, which the other program looks up by the fields involved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product

from steelyard.domains.theories.groups.products import singlets
from steelyard.domains.theories.model.theory import Label, Term, Theory

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class FactorContraction:
    """One contraction of the legs of a term under one SU(n).

    Each leg in ``legs`` carries an index. Legs in ``pairs`` are contracted with δ or ε, two at a time. Without pairs, a
    single tensor contracts all legs: ε if ``epsilon`` is set, otherwise invariant ``number`` of ``count``.
    """

    factor: int
    legs: tuple[int, ...]
    pairs: Pairs = ()
    epsilon: bool = False
    number: int = 0
    count: int = 1


@dataclass(frozen=True)
class Contraction:
    """One contraction of a term: a :class:`FactorContraction` for each SU(n) under which it has charged legs."""

    parts: tuple[FactorContraction, ...]


def contractions(theory: Theory, term: Term) -> list[Contraction]:
    """Return all contractions of a term, counting those related by swapping identical legs once."""
    parts = [list(_parts(theory, term, factor)) for factor in range(len(theory.gauge.special))]
    acting = [ways for ways in parts if ways]
    found: dict[tuple[FactorContraction, ...], Contraction] = {}
    for chosen in product(*acting):
        found.setdefault(_least(term, chosen), Contraction(chosen))
    return list(found.values())


def is_delta(theory: Theory, term: Term, part: FactorContraction, pair: tuple[int, int]) -> bool:
    """Return whether two legs contract with δ: one transforms as the conjugate of the other, in the dual basis."""
    one, other = (_form(theory, term, part.factor, leg) for leg in pair)
    if theory.gauge.special[part.factor].n == 2 or one[0] == one[0][::-1]:
        return one[0] == other[0] and one[1] != other[1]
    return one == (other[0], not other[1]) or (one[0] == other[0][::-1] and one[1] == other[1])


def _form(theory: Theory, term: Term, factor: int, leg: int) -> tuple[Label, bool]:
    own = term.legs[leg]
    return theory.by_name[own.field].labels[factor], own.conjugate


def _parts(theory: Theory, term: Term, factor: int) -> Iterator[FactorContraction]:
    n = theory.gauge.special[factor].n
    forms = [_form(theory, term, factor, leg) for leg in range(len(term.legs))]
    legs = tuple(leg for leg, (label, _) in enumerate(forms) if any(label))
    if not legs:
        return
    up = [leg for leg in legs if _kind(n, forms[leg]) == 1]
    down = [leg for leg in legs if _kind(n, forms[leg]) == -1]
    if len(up) + len(down) == len(legs):
        if n == 2:
            for pairs in list(_matchings(legs, set(up)))[: len(legs) // 2]:
                yield FactorContraction(factor, legs, pairs)
            return
        if len(up) == len(down):
            for order in permutations(down):
                yield FactorContraction(factor, legs, tuple(sorted(zip(up, order, strict=True))))
            return
        if {len(up), len(down)} == {0, n}:
            yield FactorContraction(factor, legs, epsilon=True)
            return
    if len(legs) == 2 and is_delta(theory, term, FactorContraction(factor, legs), (legs[0], legs[1])):
        yield FactorContraction(factor, legs, ((legs[0], legs[1]),))
        return
    count = singlets(n, [label[::-1] if conjugate else label for label, conjugate in (forms[leg] for leg in legs)])
    for number in range(count):
        yield FactorContraction(factor, legs, number=number, count=count)


def _kind(n: int, form: tuple[Label, bool]) -> int:
    """Return 1 for the fundamental representation, -1 for its conjugate and 0 for all others."""
    label, conjugate = form
    fundamental = (1, *(0,) * (n - 2))
    if label not in (fundamental, fundamental[::-1]):
        return 0
    if n == 2:
        return -1 if conjugate else 1
    return -1 if (label == fundamental) == conjugate else 1


def _matchings(legs: tuple[int, ...], up: set[int]) -> list[Pairs]:
    """Return all ways to pair the legs; pairings of a doublet with a conjugate doublet come first."""
    if not legs:
        return [()]
    first, rest = legs[0], legs[1:]
    found: list[Pairs] = []
    for other in rest:
        left = tuple(leg for leg in rest if leg != other)
        found += [((first, other), *pairs) for pairs in _matchings(left, up)]
    return sorted(found, key=lambda pairs: sum((a in up) == (b in up) for a, b in pairs))


def _least(term: Term, chosen: tuple[FactorContraction, ...]) -> tuple[FactorContraction, ...]:
    """Return the smallest contraction among those related by swapping identical legs."""
    legs = range(len(term.legs))
    orders = [order for order in permutations(legs) if all(term.legs[i] == term.legs[j] for i, j in enumerate(order))]
    return min(
        (tuple(_moved(part, order) for part in chosen) for order in orders),
        key=lambda parts: [(part.factor, part.pairs, part.number) for part in parts],
    )


def _moved(part: FactorContraction, order: tuple[int, ...]) -> FactorContraction:
    pairs = tuple(sorted(tuple(sorted((order[a], order[b]))) for a, b in part.pairs))
    return FactorContraction(part.factor, part.legs, pairs, part.epsilon, part.number, part.count)  # pyright: ignore[reportArgumentType]
