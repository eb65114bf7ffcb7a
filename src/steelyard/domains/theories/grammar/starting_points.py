"""Starting points of tasks: the part of a theory that a policy is given.

- ``nothing``: nothing is given; any theory is allowed
- ``groups``: the gauge group
- ``sector``: the gauge group and Higgs doublet of the Standard Model
- ``partial``: the same, plus some of the Standard Model's fermions
- ``model``: the complete Standard Model, to be extended

The prompt is the name of the kind. The given part opens every sample as forced tokens.
"""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from steelyard.domains.base import Split
from steelyard.domains.theories.grammar.text import read, rounded, write
from steelyard.domains.theories.grammar.vocabulary import GAUGE, HANDS, INTERACTIONS, MULTIPLETS, SSB, group_word
from steelyard.domains.theories.model.known_models import standard_model
from steelyard.domains.theories.model.limits import SMALLEST_GROUP, Limits
from steelyard.domains.theories.model.theory import Theory

SPLITS: tuple[Split, ...] = ("train", "validation", "held_out")
SPLIT_OF_FIVE: dict[int, Split] = {2: "held_out", 4: "validation"}
"""Of every five starting points of a kind, the third and fifth are held out or used for validation; the others are used
for training. Gauge groups with fewer than the maximum number of factors are always used for training, so held-out
groups are products of factors seen in training. A kind with a single starting point uses it in every split.
"""
NO_MULTIPLETS = 6
"""Difficulty of a starting point with no multiplets."""


@dataclass(frozen=True)
class StartingPoint:
    """The given prefix of a theory text, and the given first terms of its interactions."""

    kind: str
    given: str
    terms: str = ""
    difficulty: float = 0.0
    basic: bool = False
    """Whether other starting points build on this one; if so, it is always used for training."""

    @property
    def id(self) -> str:
        """The kind, followed by a hash of the given text."""
        return f"{self.kind}-{zlib.crc32(f'{self.given}|{self.terms}'.encode()):08x}"

    @property
    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "given": self.given, "terms": self.terms}


def nothing(limits: Limits) -> Iterator[StartingPoint]:
    yield StartingPoint("nothing", GAUGE, difficulty=NO_MULTIPLETS + limits.groups + 1.0)


def groups(limits: Limits) -> Iterator[StartingPoint]:
    sizes = range(SMALLEST_GROUP, limits.largest + 1)
    for count in range(1, limits.groups + 1):
        for abelian in range(min(limits.abelian, count) + 1):
            for special in itertools.combinations_with_replacement(sizes, count - abelian):
                words = " ".join(map(group_word, (*(1,) * abelian, *special)))
                basic = count < limits.groups
                yield StartingPoint(
                    "groups", f"{GAUGE} {words} {SSB}", difficulty=NO_MULTIPLETS + float(count), basic=basic
                )


def sector(_limits: Limits) -> Iterator[StartingPoint]:
    given, _, _ = rounded_text(standard_model_with(())).partition(f" {MULTIPLETS}")
    yield StartingPoint("sector", given, difficulty=float(NO_MULTIPLETS))


def partial(_limits: Limits) -> Iterator[StartingPoint]:
    every = range(len(standard_model().fermions))
    for count in range(1, len(every)):
        yield from (
            _standard("partial", kept, 1.0 + len(every) - count) for kept in itertools.combinations(every, count)
        )


def model(_limits: Limits) -> Iterator[StartingPoint]:
    yield _standard("model", range(len(standard_model().fermions)), 1.0)


def describe(spec: Mapping[str, Any]) -> str:
    """Describe a task in words, from its spec."""
    kind, given = str(spec.get("kind", "")), str(spec.get("given", "")).split()
    if kind == "groups":
        return f"a theory of {' × '.join(word for word in given if word not in (GAUGE, SSB))}"
    if kind == "partial":
        kept = sum(word in HANDS for word in given)
        return f"the Standard Model completed from {kept} of its {len(standard_model().fermions)} fermions"
    return DESCRIPTIONS.get(kind, kind)


DESCRIPTIONS = {
    "nothing": "a theory of any gauge group",
    "sector": "a theory with the Standard Model's gauge group and Higgs doublet",
    "model": "an extension of the Standard Model",
}
STARTING_POINTS: dict[str, Callable[[Limits], Iterator[StartingPoint]]] = {
    "nothing": nothing,
    "groups": groups,
    "sector": sector,
    "partial": partial,
    "model": model,
}


def starting_points_by_split(
    kinds: Sequence[str], limits: Limits, containing: Sequence[str] = ()
) -> dict[Split, dict[str, list[StartingPoint]]]:
    """Return the starting points by split and kind.

    ``containing`` restricts gauge groups to those with the given factors. Splits are disjoint, except for kinds with a
    single starting point.
    """
    by_split: dict[Split, dict[str, list[StartingPoint]]] = {split: {} for split in SPLITS}
    for kind in kinds:
        points = [point for point in STARTING_POINTS[kind](limits) if kind != "groups" or _contains(point, containing)]
        assigned = splits_of(points)
        for split in SPLITS:
            selected = [
                p for p, own_split in zip(points, assigned, strict=True) if len(points) == 1 or own_split == split
            ]
            if selected:
                by_split[split][kind] = selected
    return by_split


def splits_of(points: Sequence[StartingPoint]) -> list[Split]:
    """Assign splits by position in the list."""
    place = itertools.count()
    return ["train" if point.basic else SPLIT_OF_FIVE.get(next(place) % 5, "train") for point in points]


def _contains(starting_point: StartingPoint, factors: Sequence[str]) -> bool:
    return Counter(factors) <= Counter(starting_point.given.split())


def standard_model_with(kept: Sequence[int]) -> Theory:
    """Return the Standard Model with only some of its fermions, and the terms among these and the Higgs doublet."""
    complete = standard_model()
    fermions = [complete.fermions[place] for place in kept]
    names = {field.name for field in (*complete.scalars, *fermions)}
    terms = tuple(term for term in complete.terms if {leg.field for leg in term.legs} <= names)
    return replace(complete, fields=(*complete.scalars, *fermions), terms=terms)


@cache
def rounded_text(theory: Theory) -> str:
    return write(rounded(theory))


def _standard(kind: str, kept: Sequence[int], difficulty: float) -> StartingPoint:
    given, _, terms = rounded_text(standard_model_with(kept)).partition(f" {INTERACTIONS} ")
    return StartingPoint(kind, given, terms, difficulty)


def standard_model_text() -> str:
    """Return the complete Standard Model as text."""
    text = rounded_text(standard_model())
    read(text)
    return text
