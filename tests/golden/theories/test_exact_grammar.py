"""Under the grammar, the expected update equals the exact gradient, computed by enumerating all theories."""

from __future__ import annotations

import pytest

from benchmarks.constraints.constraints_exact import (
    Case,
    deviation,
    enumerated_entropy_and_kl,
    learner_entropy_and_kl,
    true_gradient,
)
from benchmarks.theories.theories_cost import TINY, tiny_case
from benchmarks.theories.theory_texts import every_text


@pytest.fixture(scope="module")
def case() -> Case:
    return tiny_case()


def test_the_sentences_are_all_theories_within_tiny_limits(case: Case) -> None:
    assert {sample.text for sample in case.sentences} == every_text(TINY, 13)
    assert len(case.sentences) == 22


def test_the_expected_update_is_the_gradient_of_the_expected_reward(case: Case) -> None:
    true = true_gradient(case)
    assert float(deviation(case, "rloo", None, 2, true)["relative deviation"]) < 1e-6
    assert float(deviation(case, "rloo", None, 2, true, forget=True)["relative deviation"]) > 0.05


def test_entropy_and_kl_add_up_to_those_of_the_sentences(case: Case) -> None:
    assert learner_entropy_and_kl(case) == pytest.approx(enumerated_entropy_and_kl(case), abs=1e-6)
