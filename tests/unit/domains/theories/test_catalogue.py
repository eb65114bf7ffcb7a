"""The catalogue of distinct theories: equivalence, relation to known models, and its summary."""

from __future__ import annotations

import random
from dataclasses import replace

from benchmarks.theories.theory_cases import rebased, renamed, reordered
from steelyard.domains.artifacts import Artifact
from steelyard.domains.theories.comparison.canonical_form import canonical
from steelyard.domains.theories.comparison.catalogue import (
    catalogue,
    count_distinct,
    field_content,
    group_name,
    relation_to_known,
)
from steelyard.domains.theories.model.known_models import models, standard_model
from steelyard.domains.theories.model.notation import left, right, scalar, theory
from steelyard.domains.theories.model.theory import Theory
from steelyard.domains.theories.rendering.summary import summarise
from steelyard.errors import DataError
from steelyard.types import Verdict

NEW = theory("X c:3", (left("a", "1 3"), right("b", "4 3"), left("e", "9 1"), scalar("s", "3 1")))


def test_equivalent_theories_share_an_entry() -> None:
    rng = random.Random(1)
    model = models()["U(1) of B - L"]
    written = [model, renamed(model, rng), rebased(model, rng), reordered(model, rng)]
    found = catalogue([*written, standard_model()])
    assert [entry.count for entry in found.entries] == [1, 4]
    assert [entry.known_model for entry in found.entries] == ["Standard Model", "U(1) of B - L"]
    assert list(found.by_group) == ["U(1) × SU(2) × SU(3)", "U(1)² × SU(2) × SU(3)"]
    assert count_distinct([*written, standard_model()]) == 2


def test_vector_like_pairs_can_be_ignored() -> None:
    pairs = [standard_model(left("x", f"{q} 1 1"), left("y", f"-{q} 1 1")) for q in (1, 2, 3)]
    assert count_distinct(pairs) == 3
    assert count_distinct(pairs, vector_like=False) == 1
    assert (len(catalogue(pairs).entries), catalogue(pairs).chiral) == (3, 1)


def test_the_closest_relation_to_a_known_model() -> None:
    model = standard_model()
    assert relation_to_known(model) == ("is", "Standard Model")
    assert relation_to_known(replace(model, terms=())) == ("has the fields of", "Standard Model")
    more = standard_model(scalar("A", "5 1 1"))
    assert relation_to_known(more) == ("has the fermions of", "Standard Model")
    pair = standard_model(scalar("A", "5 1 1"), left("x", "5 1 1"), left("y", "-5 1 1"))
    assert relation_to_known(pair) == ("has the chiral fermions of", "Standard Model")
    assert relation_to_known(NEW) == ("new", "")


def test_vector_like_theories_are_not_related_through_empty_content() -> None:
    assert relation_to_known(theory("X", (left("a", "1"), left("b", "-1"))))[0] == "new"


def test_formatting() -> None:
    assert field_content(NEW) == "(3)_1 + (3̅)_-4 + (1)_9 | (1)_3"
    assert field_content(theory("c:3", ())) == "– | –"
    assert group_name(canonical(theory("c:3 L:3 R:3", (left("Q", "3 3 1"),)))) == "SU(3)³"


def test_a_summary_counts_successes() -> None:
    texts = {"sm": standard_model(), "again": renamed(standard_model(), random.Random(2)), "new": NEW}

    def read(text: str) -> Theory:
        if text not in texts:
            raise DataError("not a theory")
        return texts[text]

    scored = [Artifact(text, verdict=Verdict.scored(1.0, success=True)) for text in ("sm", "again", "new", "nonsense")]
    scored.append(Artifact("new", verdict=Verdict.scored(0.0, success=False)))
    found = summarise(scored, read, title="<run>")
    assert found.lines == (
        "3 of 5 samples are consistent theories (4 readable); 2 distinct",
        "2 when vector-like fermions are ignored",
        "1 is a known model; 1 new",
    )
    assert [row.cells[0] for row in found.rows] == ["U(1) × SU(3)", "U(1) × SU(2) × SU(3)"]
    assert [row.good for row in found.rows] == [True, False]
    assert "&lt;run&gt;" in found.page
    assert found.page.count("<svg") == 2
    unscored = summarise([Artifact("sm"), Artifact("new")], read)
    assert unscored.lines[0].startswith("1 of 2 samples are consistent theories")
