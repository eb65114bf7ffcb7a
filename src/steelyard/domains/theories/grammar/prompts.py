"""What a policy is given to begin from, and how much that leaves free.

- ``nothing``: a theory of any kind
- ``groups``: the gauge group is given
- ``sector``: the Standard Model's gauge group and its Higgs doublet
- ``partial``: that and some of the Standard Model's fermions
- ``model``: the whole Standard Model, to be extended

The prompt is the kind's name; what is given comes first in every sample without being a choice of the policy.
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
"""Of every five beginnings of a kind the third and the fifth; the rest is for training, and so are all gauge groups
with fewer factors than there may be: what is held out are products of what was met, and lies between others of its
size. Kinds of which there is one are in every split.
"""
FREE = 6
"""How difficult it is to be given no multiplet."""


@dataclass(frozen=True)
class Beginning:
    """What is given: the first words of a text, and the first terms of its interactions."""

    kind: str
    given: str
    terms: str = ""
    difficulty: float = 0.0
    basic: bool = False
    """What others of its kind are made of: always for training."""

    @property
    def id(self) -> str:
        """The kind, and a number made of what is given."""
        return f"{self.kind}-{zlib.crc32(f'{self.given}|{self.terms}'.encode()):08x}"

    @property
    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "given": self.given, "terms": self.terms}


def nothing(limits: Limits) -> Iterator[Beginning]:
    yield Beginning("nothing", GAUGE, difficulty=FREE + limits.groups + 1.0)


def groups(limits: Limits) -> Iterator[Beginning]:
    sizes = range(SMALLEST_GROUP, limits.largest + 1)
    for count in range(1, limits.groups + 1):
        for abelian in range(min(limits.abelian, count) + 1):
            for special in itertools.combinations_with_replacement(sizes, count - abelian):
                words = " ".join(map(group_word, (*(1,) * abelian, *special)))
                basic = count < limits.groups
                yield Beginning("groups", f"{GAUGE} {words} {SSB}", difficulty=FREE + float(count), basic=basic)


def sector(_limits: Limits) -> Iterator[Beginning]:
    given, _, _ = rounded_text(standard_model_with(())).partition(f" {MULTIPLETS}")
    yield Beginning("sector", given, difficulty=float(FREE))


def partial(_limits: Limits) -> Iterator[Beginning]:
    every = range(len(standard_model().fermions))
    for count in range(1, len(every)):
        yield from (
            _standard("partial", kept, 1.0 + len(every) - count) for kept in itertools.combinations(every, count)
        )


def model(_limits: Limits) -> Iterator[Beginning]:
    yield _standard("model", range(len(standard_model().fermions)), 1.0)


def describe(spec: Mapping[str, Any]) -> str:
    """What a task asks for, from its spec."""
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
BEGINNINGS: dict[str, Callable[[Limits], Iterator[Beginning]]] = {
    "nothing": nothing,
    "groups": groups,
    "sector": sector,
    "partial": partial,
    "model": model,
}


def starting_points(
    kinds: Sequence[str], limits: Limits, containing: Sequence[str] = ()
) -> dict[Split, dict[str, list[Beginning]]]:
    """All beginnings of these kinds, of gauge groups those with certain factors; splits share none, but for kinds of
    which there is one.
    """
    found: dict[Split, dict[str, list[Beginning]]] = {split: {} for split in SPLITS}
    for kind in kinds:
        every = [one for one in BEGINNINGS[kind](limits) if kind != "groups" or _contains(one, containing)]
        split_E = splits_of(every)
        for split in SPLITS:
            own = [one for one, its in zip(every, split_E, strict=True) if len(every) == 1 or its == split]
            if own:
                found[split][kind] = own
    return found


def splits_of(beginnings: Sequence[Beginning]) -> list[Split]:
    """By their place in the list."""
    place = itertools.count()
    return ["train" if one.basic else SPLIT_OF_FIVE.get(next(place) % 5, "train") for one in beginnings]


def _contains(beginning: Beginning, factors: Sequence[str]) -> bool:
    return Counter(factors) <= Counter(beginning.given.split())


def standard_model_with(kept: Sequence[int]) -> Theory:
    """The Standard Model with some of its fermions, and the terms that they and the Higgs doublet make."""
    whole = standard_model()
    fermions = [whole.fermions[place] for place in kept]
    names = {field.name for field in (*whole.scalars, *fermions)}
    terms = tuple(term for term in whole.terms if {leg.field for leg in term.legs} <= names)
    return replace(whole, fields=(*whole.scalars, *fermions), terms=terms)


@cache
def rounded_text(theory: Theory) -> str:
    return write(rounded(theory))


def _standard(kind: str, kept: Sequence[int], difficulty: float) -> Beginning:
    given, _, terms = rounded_text(standard_model_with(kept)).partition(f" {INTERACTIONS} ")
    return Beginning(kind, given, terms, difficulty)


def standard_model_text() -> str:
    """The Standard Model as a whole text."""
    text = rounded_text(standard_model())
    read(text)
    return text
