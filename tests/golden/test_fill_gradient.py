"""For fill-in with one to three steps, the learner agrees with an enumeration of all traces."""

from __future__ import annotations

import pytest

from benchmarks.infill.infill_exact import STEPS, Case, build, row


@pytest.fixture(scope="module", params=[*STEPS[:-1], pytest.param(STEPS[-1], marks=pytest.mark.slow)])
def case(request: pytest.FixtureRequest) -> Case:
    return build(request.param)


def test_log_probs_entropy_kl_and_the_expected_update_match_the_enumeration(case: Case) -> None:
    found = row(case)
    for name in ("sampler", "learner", "entropy", "KL", "update"):
        assert float(found[name]) < 1e-6, name
    surrogate = float(found["surrogate: update"])
    assert surrogate < 1e-6 if case.steps == 1 else surrogate > 0.1, (
        "a single forward pass is correct for one step only"
    )
