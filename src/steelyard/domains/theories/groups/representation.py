"""Irreducible representations of SU(n), identified by their Dynkin labels.

States are Gelfand-Tsetlin patterns: triangles of integers with interlacing rows, whose top row is the partition of the
label. The Dynkin index T and the cubic anomaly A follow from the charges q of the states under
h = diag(1, …, 1, -(n - 1)):  T = Σ q² / (2 Σ_fund q²),  A = Σ q³ / Σ_fund q³.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise, product
from math import prod

Label = tuple[int, ...]
Pattern = tuple[tuple[int, ...], ...]
"""Rows of a Gelfand-Tsetlin pattern, longest first."""

MAX_STATES = 20_000
"""Largest dimension for which states are enumerated."""


@dataclass(frozen=True)
class Representation:
    """The irreducible representation of SU(n) with this Dynkin label."""

    n: int
    label: Label

    def __post_init__(self) -> None:
        if self.n < 2 or len(self.label) != self.n - 1 or min(self.label) < 0:
            raise ValueError(
                f"{self.label} is not a Dynkin label of SU({self.n}); it must have {self.n - 1} non-negative integers"
            )

    @cached_property
    def dimension(self) -> int:
        """Dimension by Weyl's formula: Π_{i<j} (λ_i - λ_j + j - i) / (j - i)."""
        rows = partition(self.label)
        pairs = [(i, j) for i in range(self.n) for j in range(i + 1, self.n)]
        return prod(rows[i] - rows[j] + j - i for i, j in pairs) // prod(j - i for i, j in pairs)

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """Basis states as Gelfand-Tsetlin patterns, highest weight first."""
        if self.dimension > MAX_STATES:
            raise ValueError(f"SU({self.n}) {self.label} has {self.dimension} states; the limit is {MAX_STATES}")
        triangles = _triangles((partition(self.label),))
        return tuple(sorted(triangles, key=lambda pattern: (_content(pattern), pattern), reverse=True))

    @cached_property
    def weights(self) -> tuple[tuple[int, ...], ...]:
        """Weight of each basis state, in the Dynkin basis."""
        contents = map(_content, self.patterns)
        return tuple(tuple(a - b for a, b in pairwise(content)) for content in contents)

    @cached_property
    def index(self) -> Fraction:
        """Dynkin index T, normalised to 1/2 for the fundamental."""
        charges = self._charges
        return Fraction(sum(q * q for q in charges), 2 * self.n * (self.n - 1))

    @cached_property
    def anomaly(self) -> Fraction:
        """Cubic anomaly A, normalised to 1 for the fundamental; always 0 for SU(2)."""
        if self.n == 2:
            return Fraction(0)
        return Fraction(sum(q**3 for q in self._charges), (self.n - 1) - (self.n - 1) ** 3)

    @property
    def conjugate(self) -> Representation:
        return cached(self.n, self.label[::-1])

    @property
    def is_real(self) -> bool:
        """Whether the representation is equivalent to its conjugate, that is, real or pseudoreal."""
        return self.label == self.label[::-1]

    @property
    def n_ality(self) -> int:
        """Charge under the centre Z_n."""
        return sum(k * a for k, a in enumerate(self.label, 1)) % self.n

    @property
    def is_barred(self) -> bool:
        """Whether the name has a bar: the anomaly is negative, or it is 0 and the label is smaller than the
        conjugate's.
        """
        return (self.anomaly, self.label) < (self.conjugate.anomaly, self.label[::-1])

    @cached_property
    def primes(self) -> int:
        """Number of representations of the same dimension with a smaller index."""
        own = self.conjugate if self.is_barred else self
        return _of_dimension(self.n, self.dimension).index(own.label)

    @property
    def name(self) -> str:
        """Name used in the physics literature: ``3``, ``3̅``, ``15'``."""
        overline = "\N{COMBINING OVERLINE}" if self.is_barred else ""
        return "".join(digit + overline for digit in str(self.dimension)) + "'" * self.primes

    @property
    def _charges(self) -> list[int]:
        """Charge of each state under diag(1, …, 1, -(n - 1))."""
        boxes = sum(partition(self.label))
        return [boxes - self.n * _content(pattern)[-1] for pattern in self.patterns]


def representation(n: int, dimension: int, *, bar: bool = False, primes: int = 0) -> Representation:
    """Return the representation of this dimension; ``primes`` selects among several, ordered by index."""
    found = _of_dimension(n, dimension)
    if primes >= len(found):
        raise ValueError(
            f"SU({n}) has {len(found)} representations of dimension {dimension}; primes = {primes} is too large"
        )
    plain = cached(n, found[primes])
    return plain.conjugate if bar else plain


@lru_cache(maxsize=4096)
def cached(n: int, label: Label) -> Representation:
    """Return a shared :class:`Representation` for this label."""
    return Representation(n, label)


def partition(label: Label) -> tuple[int, ...]:
    """Return the row lengths of the Young diagram, including a final 0."""
    rows = [0]
    for step in reversed(label):
        rows.append(rows[-1] + step)
    return tuple(reversed(rows))


def _triangles(rows: Pattern) -> Iterator[Pattern]:
    above = rows[-1]
    if len(above) == 1:
        yield rows
        return
    for row in product(*(range(low, high + 1) for high, low in pairwise(above))):
        yield from _triangles((*rows, row))


def _content(pattern: Pattern) -> tuple[int, ...]:
    """Count the boxes of the Young tableau that hold 1, 2, …, n."""
    sums = [0, *(sum(row) for row in reversed(pattern))]
    return tuple(b - a for a, b in pairwise(sums))


@lru_cache(maxsize=4096)
def _of_dimension(n: int, dimension: int) -> list[Label]:
    """Return the unbarred labels of this dimension, lowest index first."""
    found: list[Label] = []

    def search(label: Label, position: int) -> None:
        size = cached(n, label).dimension
        if size == dimension and not cached(n, label).is_barred:
            found.append(label)
        if size < dimension:  # a larger entry means a larger dimension
            for k in range(position, n - 1):
                search((*label[:k], label[k] + 1, *label[k + 1 :]), k)

    search((0,) * (n - 1), 0)
    return sorted(found, key=lambda label: (cached(n, label).index, label))
