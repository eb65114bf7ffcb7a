"""The ``plan`` benchmark: its cases are valid configurations, and the true rates predict their own data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.scale.plan import (
    CALIBRATION,
    LEARNING,
    MEMORY,
    PREDICTED,
    SAMPLING,
    fitted,
    learner_work,
    memory_row,
    passes,
    pipeline_of,
    run_of,
    sampler_work,
    shape_of,
    time_row,
)
from benchmarks.scale.plan_measurements import TINY, Case, tables
from steelyard import config as configs
from steelyard.commands.plan import training_of
from steelyard.planning.rates import Rates
from steelyard.planning.simulation import simulate

TRUE = (
    Rates(calls=2e-5, flops=3e-11, cache=1e-10, logits=2e-8, tokens=2e-5),
    Rates(calls=4e-5, flops=1e-11, activations=2e-10, logits=1e-9, state=5e-10),
)


def simulated(case: Case) -> dict[str, float]:
    """Return the measurements that a machine with the true rates would produce."""
    found = {"prompt": 12, "microbatch": 2000, "chunk": 100}
    run = run_of(case, 12)
    scoring, updating = learner_work(run, passes(run, found))
    sample = TRUE[0].seconds(sampler_work(case, run)) + case.check * case.rows
    score, update = TRUE[1].seconds(scoring), TRUE[1].seconds(updating)
    return {**found, "sample": sample, "score": score, "update": update, "step": sample + score + update}


@pytest.mark.parametrize("case", [TINY, *CALIBRATION, *PREDICTED, *MEMORY], ids=lambda case: case.name)
def test_every_case_is_a_valid_configuration(case: Case) -> None:
    config = configs.build(tables(case, "runs"), source="test")
    assert replace(training_of(config), eager=case.dtype == "bfloat16") == run_of(case, 12).training


def test_no_case_is_both_fitted_and_predicted() -> None:
    assert not {replace(case, name="") for case in CALIBRATION} & {replace(case, name="") for case in PREDICTED}
    assert len([case for case in PREDICTED if not case.workers]) >= 6
    assert len(MEMORY) >= 4


@pytest.mark.parametrize("case", [case for case in PREDICTED if not case.workers], ids=lambda case: case.name)
def test_the_true_rates_are_recovered_and_predict_other_cases(case: Case) -> None:
    rates = fitted(CALIBRATION, [simulated(case) for case in CALIBRATION])
    assert abs(float(time_row(case, simulated(case), rates)["error"])) < 0.02


def test_fast_waiting_verifiers_hide_behind_sampling() -> None:
    quick, slow = (case for case in PREDICTED if case.workers)
    within = simulate(pipeline_of(quick, simulated(quick), TRUE), 3)
    assert within.phases["verifiers"] < 0.1 * within.step
    behind = simulate(pipeline_of(slow, simulated(slow), TRUE), 3)
    assert behind.phases["samplers"] + behind.phases["verifiers"] == pytest.approx(
        slow.rows * slow.check / slow.workers, rel=0.2
    )


def test_predicted_memory_is_compared_with_the_measurement() -> None:
    row = memory_row(MEMORY[0], {**simulated(MEMORY[0]), "memory": 400 * 2**20})
    assert row["error"] == pytest.approx(float(row["predicted"]) / 400 - 1)
    assert shape_of(MEMORY[-1]).parameters == pytest.approx(134.5e6, rel=1e-3)
    assert set(SAMPLING) | set(LEARNING) == {"calls", "flops", "cache", "logits", "tokens", "activations", "state"}
