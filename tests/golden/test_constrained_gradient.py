"""With supports the expected update under a constraint is the true gradient; without them it is not."""

from __future__ import annotations

import pytest

from benchmarks.constraints.constraints_exact import (
    Case,
    build,
    deviation,
    enumerated_entropy_and_kl,
    learner_entropy_and_kl,
    true_gradient,
)


@pytest.fixture(scope="module")
def case() -> Case:
    return build()


def test_the_expected_update_is_the_gradient_of_the_expected_reward(case: Case) -> None:
    found = deviation(case, "rloo", None, 2, true_gradient(case))
    assert float(found["relative deviation"]) < 1e-6


def test_the_update_is_wrong_when_the_learner_ignores_the_supports(case: Case) -> None:
    found = deviation(case, "rloo", None, 2, true_gradient(case), forget=True)
    assert float(found["relative deviation"]) > 0.05


def test_entropy_and_kl_sum_to_those_of_complete_samples(case: Case) -> None:
    assert learner_entropy_and_kl(case) == pytest.approx(enumerated_entropy_and_kl(case), abs=1e-6)
