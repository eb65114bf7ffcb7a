"""Catalogue distinct theories by gauge group and field content, and compare them with known models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from steelyard.domains.theories.comparison.canonical_form import CanonicalForm, canonical
from steelyard.domains.theories.groups.representation import cached
from steelyard.domains.theories.model.known_models import models
from steelyard.domains.theories.model.theory import QuantumNumbers, Theory

Relation = Literal["is", "has the fields of", "has the fermions of", "has the chiral fermions of", "new"]
RELATIONS: tuple[tuple[Relation, dict[str, bool]], ...] = (
    ("is", {}),
    ("has the fields of", {"terms": False}),
    ("has the fermions of", {"scalars": False}),
    ("has the chiral fermions of", {"scalars": False, "vector_like": False}),
)
"""Possible relations between a theory and a known model, closest first, with the :func:`canonical` options that test
for each.
"""


@dataclass(frozen=True)
class CatalogueEntry:
    """A distinct theory, its multiplicity, and its relation to the known models."""

    theory: Theory
    """The equivalent theory with the fewest fields and terms."""
    form: CanonicalForm
    count: int
    relation: Relation
    known_model: str
    """Name of the related known model; empty if there is none."""

    @property
    def novelty(self) -> str:
        return f"{self.relation} {self.known_model}".strip()


@dataclass(frozen=True)
class Catalogue:
    """Distinct theories by gauge group, smallest first."""

    entries: tuple[CatalogueEntry, ...]
    chiral: int
    """Number of distinct theories, ignoring vector-like fermions."""

    @property
    def by_group(self) -> dict[str, tuple[CatalogueEntry, ...]]:
        """Entries by gauge group."""
        names = dict.fromkeys(group_name(entry.form) for entry in self.entries)
        return {name: tuple(entry for entry in self.entries if group_name(entry.form) == name) for name in names}

    @property
    def relation_counts(self) -> Counter[Relation]:
        return Counter(entry.relation for entry in self.entries)


def catalogue(theories: Iterable[Theory]) -> Catalogue:
    """Collect the distinct theories from many."""
    by_form: dict[CanonicalForm, list[Theory]] = {}
    for theory in theories:
        by_form.setdefault(canonical(theory), []).append(theory)
    entries = [_entry(form, equivalent) for form, equivalent in by_form.items()]
    entries.sort(key=lambda entry: (len(_factors(entry.form)), group_name(entry.form), _size(entry.theory), entry.form))
    chiral = {canonical(entry.theory, vector_like=False) for entry in entries}
    return Catalogue(tuple(entries), len(chiral))


def count_distinct(theories: Iterable[Theory], *, vector_like: bool = True) -> int:
    """Count the distinct theories; equivalent theories count once."""
    return len({canonical(theory, vector_like=vector_like) for theory in theories})


def relation_to_known(theory: Theory) -> tuple[Relation, str]:
    """Return the closest relation of a theory to a known model, and the name of that model."""
    for relation, options in RELATIONS:
        name = _known_models(relation).get(canonical(theory, **options))
        if name:
            return relation, name
    return "new", ""


def group_name(form: CanonicalForm) -> str:
    """Format the gauge group, for example ``U(1)² × SU(2) × SU(3)``."""
    counts = Counter(_factors(form))
    powers = {1: "", 2: "²", 3: "³", 4: "⁴", 5: "⁵"}
    return " × ".join(name + powers.get(times, f"^{times}") for name, times in counts.items()) or "no gauge group"


def field_content(theory: Theory) -> str:
    """Format left-handed fermions and scalars on one line: ``3(2,3)_1/6 + 3(1,3̅)_-2/3 | (2,1)_1/2``."""
    fermions: Counter[QuantumNumbers] = Counter()
    scalars: Counter[QuantumNumbers] = Counter()
    for field in theory.fields:
        (fermions if field.fermion else scalars)[field.left_handed if field.fermion else field.acts] += (
            field.generations
        )
    sides = [
        " + ".join(_multiplet_text(theory, multiplet, count) for multiplet, count in side.items())
        for side in (fermions, scalars)
    ]
    return " | ".join(side or "–" for side in sides)


def _multiplet_text(theory: Theory, multiplet: QuantumNumbers, count: int) -> str:
    irreps = [cached(n, label).name for (_, n), label in zip(theory.gauge.special, multiplet.labels, strict=True)]
    charges = ",".join(map(str, multiplet.charges))
    return (str(count) if count > 1 else "") + f"({','.join(irreps)})" + (f"_{charges}" if charges else "")


def _factors(form: CanonicalForm) -> list[str]:
    return ["U(1)"] * form.abelian + [f"SU({n})" for n in form.special]


def _entry(form: CanonicalForm, equivalent: Sequence[Theory]) -> CatalogueEntry:
    simplest = min(equivalent, key=_size)
    return CatalogueEntry(simplest, form, len(equivalent), *relation_to_known(simplest))


def _size(theory: Theory) -> tuple[int, int, int]:
    return len(theory.fields), len(theory.terms), sum(field.generations for field in theory.fields)


@cache
def _known_models(relation: Relation) -> dict[CanonicalForm, str]:
    """Return known model names keyed by the canonical form used for a relation; the first of equal models wins."""
    options = dict(RELATIONS)[relation]
    name_by_form: dict[CanonicalForm, str] = {}
    for name, model in models().items():
        name_by_form.setdefault(canonical(model, **options), name)
    return name_by_form
