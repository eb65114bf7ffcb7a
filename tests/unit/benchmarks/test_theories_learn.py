"""theories-learn counts the domain's successes, and counts equivalent theories once."""

from __future__ import annotations

import pytest

from benchmarks.theories.theories_learn import added, by_gauge_group, contents, extensions, lightest_exotic, successes
from steelyard.domains.theories.grammar.starting_points import standard_model_text
from steelyard.domains.theories.reward.reward import TheoryScorer
from steelyard.types import Group, Task, Verdict
from tests.tiny import sample_of

UNBROKEN = "GAUGE SU(2) SU(3) SSB MULTIPLETS F1 left 2 8 x1 INTERACTIONS"
BROKEN = "GAUGE SU(2) SU(3) SSB S1 1 3 c1 1e2 MULTIPLETS F1 left 2 8 x1 INTERACTIONS"


@pytest.mark.parametrize(("text", "counted"), [(UNBROKEN, 0), (BROKEN, 1), (standard_model_text(), 1)])
def test_a_success_is_what_the_verifier_calls_one(text: str, counted: int) -> None:
    task, sample = Task("a", "nothing"), sample_of([1, 2], text=text)
    verdict = TheoryScorer()(task, text)
    assert verdict.success == bool(counted)
    assert len(successes([Group(task, (sample, sample), (verdict, Verdict.scored(0.0)))])) == counted


def test_scalars_and_pairs_do_not_change_the_chiral_fermion_content() -> None:
    dressed = BROKEN.replace("INTERACTIONS", "S2 3 1 F2 left 1 3 x1 F3 left 1 3* x1 INTERACTIONS")
    other = BROKEN.replace("left 2 8", "left 4 8")
    samples = tuple(sample_of([1, 2], text=text) for text in (BROKEN, dressed, other))
    verdicts = (Verdict.scored(1.0, success=True),) * 3
    assert contents([Group(Task("a", "groups"), samples, verdicts)]) == 2


def test_success_is_listed_for_each_gauge_group() -> None:
    yes, no = Verdict.scored(1.0, success=True), Verdict.scored(0.0)
    broken, unbroken = (sample_of([1, 2], text=text) for text in (BROKEN, UNBROKEN))
    groups = [Group(Task("a", "groups"), (broken, unbroken), verdicts) for verdicts in ((yes, yes), (no, yes))]
    assert by_gauge_group(groups) == "SU(2) × SU(3) 1.000, SU(2) × SU(3) 0.500"


def test_extensions_are_counted_once_and_singlets_are_ignored() -> None:
    def with_fields(words: str) -> str:
        return standard_model_text().replace(" INTERACTIONS", f" {words} INTERACTIONS")

    singlet, pair = with_fields("F6 left 1 1 0 x1"), "left 1 1 +1/3 x1 F7 left 1 1 -1/3 x1"
    longer, shorter = with_fields(f"F6 {pair} F8 left 1 1 0 x1"), with_fields(f"F6 {pair}")
    failed = with_fields("F6 left 2 1 +1/3 x1 F7 left 2 1 -1/3 x1")
    samples = tuple(sample_of([1, 2], text=text) for text in (longer, singlet, failed, shorter))
    verdicts = tuple(Verdict.scored(1.0, success=text.text != failed) for text in samples)
    assert extensions([Group(Task("a", "model"), samples, verdicts)]) == [shorter]


def test_an_extension_is_shown_by_its_additions_and_its_lightest_exotic() -> None:
    fields, terms = "F6 left 1 1 0 x1 S2 1 3 +2/3", "phi2 S2 S2* 2e4"
    text = standard_model_text().replace(" INTERACTIONS", f" {fields} INTERACTIONS") + f" {terms}"
    assert added(text) == "`F6 left 1 1 0 x1`, `S2 1 3 +2/3`, `phi2 S2 S2* 2e4`"
    assert lightest_exotic(text) == "141 GeV"  # √(2·10⁴)
    assert lightest_exotic(standard_model_text()) == "none"
