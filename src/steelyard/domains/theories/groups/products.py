"""Decompose products of SU(n) representations with the Racah-Speiser algorithm.

A factor can carry a power k, which means the character χ(g^k) instead of χ(g). Counting symmetric products needs these
powers: the trace of a permutation of equal factors is the product of χ(g^k) over its cycles of length k.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from steelyard.domains.theories.groups.representation import Label, cached

Decomposition = tuple[tuple[Label, int], ...]


def decompose(n: int, labels: Sequence[Label]) -> dict[Label, int]:
    """Return the irreducible representations in a product with their multiplicities."""
    return dict(_product(n, tuple(sorted((label, 1) for label in labels))))


def singlets(n: int, labels: Sequence[Label], powers: Sequence[int] | None = None) -> int:
    """Count the SU(n) singlets in a product. With ``powers``, count them in Π χ_i(g^k_i), which can be negative."""
    factors = sorted(zip(labels, powers or (1,) * len(labels), strict=True))
    return _singlets(n, tuple(factors))


@lru_cache(maxsize=1 << 16)
def _singlets(n: int, factors: tuple[tuple[Label, int], ...]) -> int:
    if sum(power * cached(n, label).n_ality for label, power in factors) % n:
        return 0
    half = len(factors) // 2
    others = dict(_product(n, factors[half:]))
    return sum(times * others.get(label[::-1], 0) for label, times in _product(n, factors[:half]))


@lru_cache(maxsize=1 << 14)
def _product(n: int, factors: tuple[tuple[Label, int], ...]) -> Decomposition:
    if not factors:
        return (((0,) * (n - 1), 1),)
    (label, power), rest = factors[-1], factors[:-1]
    shifts = Counter(tuple(power * w for w in weight) for weight in cached(n, label).weights)
    found: Counter[Label] = Counter()
    for highest, times in _product(n, rest):
        for shift, multiplicity in shifts.items():
            reached, sign = _reflect(tuple(a + b for a, b in zip(highest, shift, strict=True)))
            found[reached] += sign * times * multiplicity
    return tuple(sorted((label, times) for label, times in found.items() if times))


@lru_cache(maxsize=1 << 16)
def _reflect(weight: Label) -> tuple[Label, int]:
    """Reflect a weight into the dominant Weyl chamber (about -ρ); return it with the sign, or with 0 on a wall."""
    rows = [0]
    for step in reversed(weight):
        rows.append(rows[-1] + step + 1)
    sign = 1
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            if rows[i] == rows[j]:
                return weight, 0
            if rows[i] > rows[j]:
                sign = -sign
    rows.sort(reverse=True)
    return tuple(a - b - 1 for a, b in pairwise(rows)), sign
