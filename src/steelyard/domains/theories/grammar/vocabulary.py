"""The vocabulary of theory texts.

A text has four blocks, and each entry has a fixed number of words::

    GAUGE U(1) SU(2) SU(3)
    SSB S1 2 1 +1/2 c1 2e2
    MULTIPLETS F1 left 2 1 -1/2 x3 F2 right 1 1 -1 x3
    INTERACTIONS phi2 S1 S1* 1e4 yukawa F1 F2* S1* 1e-2

``SSB`` lists the scalars with a vacuum expectation value: representations, charges, component and value in GeV.
``MULTIPLETS`` lists the fermions, with chirality and generations, and all other scalars. ``INTERACTIONS`` lists the
terms. Representations are given by dimension, with ``*`` for the conjugate. Charges are signed multiples of 1/6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import get_args

from steelyard.domains.theories.groups.representation import cached
from steelyard.domains.theories.model.limits import SMALLEST_GROUP, Limits, labels_within
from steelyard.domains.theories.model.theory import GaugeGroup, Label, Leg, SpecialUnitary, TermKind

GAUGE, SSB, MULTIPLETS, INTERACTIONS = BLOCKS = ("GAUGE", "SSB", "MULTIPLETS", "INTERACTIONS")
ABELIAN = "U(1)"
FERMION, SCALAR, STAR = "F", "S", "*"
HANDS = ("left", "right")
TERM_KINDS: tuple[TermKind, ...] = get_args(TermKind)
LEG_COUNT: dict[str, int] = {"phi2": 2, "phi3": 3, "phi4": 4, "mass": 2, "yukawa": 3}
SIXTHS = 6
MANTISSAS = (1, 2, 5)


def group_word(n: int) -> str:
    """Return the word for a gauge factor, given as 1 for U(1) or n for SU(n)."""
    return ABELIAN if n == 1 else f"SU({n})"


def representation_word(n: int, label: Label) -> str:
    found = cached(n, label)
    return f"{found.dimension}{STAR * found.is_barred}{chr(39) * found.primes}"


def charge_word(sixths: int) -> str:
    """Format a charge in sixths, for example ``+1/6``, ``-2`` or ``0``."""
    charge = Fraction(sixths, SIXTHS)
    return f"+{charge}" if charge > 0 else str(charge)


def number_word(mantissa: int, power: int) -> str:
    return f"{mantissa}e{power}"


def leg_word(name: str, conjugate: bool) -> str:
    return name + STAR * conjugate


def ordered_legs(legs: Sequence[Leg]) -> tuple[Leg, ...]:
    """Sort the legs of a term. For scalar terms, return the smaller of the term and its conjugate."""
    own = tuple(sorted(legs, key=_place))
    if any(leg.field[0] == FERMION for leg in own):
        return own
    other = tuple(sorted((Leg(leg.field, not leg.conjugate) for leg in own), key=_place))
    return min(own, other, key=lambda product: [_place(leg) for leg in product])


def _place(leg: Leg) -> tuple[str, int, bool]:
    return leg.field[0], int(leg.field[1:]), leg.conjugate


def gauge_of(factors: tuple[int, ...]) -> GaugeGroup:
    """Build a gauge group with default names; repeated factors get letters: ``U1``, ``SU2``, ``SU3a``, ``SU3b``."""
    names: list[str] = []
    for place, n in enumerate(factors):
        letter = chr(ord("a") + factors[:place].count(n)) if factors.count(n) > 1 else ""
        names.append(f"{'U' if n == 1 else 'SU'}{n}{letter}")
    pairs = list(zip(names, factors, strict=True))
    return GaugeGroup(
        tuple(name for name, n in pairs if n == 1), tuple(SpecialUnitary(name, n) for name, n in pairs if n > 1)
    )


def factors_of(gauge: GaugeGroup) -> tuple[int, ...]:
    return (*(1 for _ in gauge.abelian), *(factor.n for factor in gauge.special))


@dataclass(frozen=True)
class Vocabulary:
    """All words allowed by the limits, with their meanings."""

    limits: Limits = field(default_factory=Limits)

    @cached_property
    def groups(self) -> dict[str, int]:
        sizes = [1] if self.limits.abelian else []
        return {group_word(n): n for n in (*sizes, *range(SMALLEST_GROUP, self.limits.largest + 1))}

    @cached_property
    def labels(self) -> dict[int, dict[str, Label]]:
        """Representation words for each n of SU(n)."""
        return {
            n: {representation_word(n, label): label for label in labels_within(n, self.limits.dimension)}
            for n in self.groups.values()
            if n > 1
        }

    @cached_property
    def charges(self) -> dict[str, int]:
        """Charges in sixths by word, smallest absolute value first."""
        most = self.limits.charge
        return {charge_word(sixths): sixths for sixths in sorted(range(-most, most + 1), key=lambda q: (abs(q), -q))}

    @cached_property
    def generations(self) -> dict[str, int]:
        return {f"x{number}": number for number in range(1, self.limits.generations + 1)}

    @cached_property
    def components(self) -> dict[str, int]:
        """Component indices by word. Texts count from 1, theories from 0."""
        return {f"c{number}": number - 1 for number in range(1, self.limits.components + 1)}

    @cached_property
    def numbers(self) -> dict[str, dict[str, float]]:
        """Parameter values by word, for ``vev`` and each kind of term."""
        return {kind: _numbers(*self.limits.power_of_ten(kind)) for kind in ("vev", *TERM_KINDS)}

    @cached_property
    def fermions(self) -> tuple[str, ...]:
        return tuple(f"{FERMION}{number}" for number in range(1, self.limits.multiplets + 1))

    @cached_property
    def scalars(self) -> tuple[str, ...]:
        most = min(self.limits.scalars, self.limits.multiplets - 1)
        return tuple(f"{SCALAR}{number}" for number in range(1, most + 1))

    @cached_property
    def words(self) -> tuple[str, ...]:
        representations = [word for words in self.labels.values() for word in words]
        numbers = sorted({(value, word) for words in self.numbers.values() for word, value in words.items()})
        names = [leg_word(name, star) for name in (*self.fermions, *self.scalars) for star in (False, True)]
        words = (*BLOCKS, *self.groups, *HANDS, *TERM_KINDS, *names, *representations, *self.charges)
        words = (*words, *self.generations, *self.components, *(word for _, word in numbers))
        return tuple(dict.fromkeys(words))


def _numbers(least: int, largest: int) -> dict[str, float]:
    return {
        (word := number_word(mantissa, power)): float(word)
        for power in range(least, largest + 1)
        for mantissa in MANTISSAS
    }
