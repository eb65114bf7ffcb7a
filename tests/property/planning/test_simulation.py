"""Properties of the simulation that hold for any pipeline."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import ConfigError
from steelyard.planning.plan import CORES_TOLERANCE, cores_needed
from steelyard.planning.simulation import Pipeline, Spread, simulate

seconds = st.floats(0.0, 3.0)
spreads = st.builds(
    lambda mean, tail, limit: Spread(mean, mean * tail, mean * limit),
    st.floats(0.05, 3.0),
    st.floats(1.0, 8.0),
    st.floats(1.5, 20.0),
)
lengths = st.builds(lambda mean, tail: Spread(mean, mean * tail, 4 * mean), st.floats(2, 60), st.floats(1.0, 3.0))
pipelines = st.builds(
    Pipeline,
    tasks=st.integers(1, 5),
    group=st.integers(1, 6),
    replicas=st.integers(1, 6),
    rows=st.integers(1, 8),
    length=lengths,
    prefill=st.floats(0.0, 0.5),
    decode=st.floats(0.001, 0.1),
    decode_row=st.floats(0.0, 0.02),
    cores=st.integers(1, 40),
    check=spreads,
    controller=st.floats(0.0, 0.02),
    learn=seconds,
    publish=seconds,
    staleness=st.integers(0, 3),
    seed=st.integers(0, 99),
)
STEPS = 4
few = settings(max_examples=40)


@few
@given(pipelines)
def test_every_sample_is_drawn_verified_and_used_once(pipeline: Pipeline) -> None:
    outcome = simulate(pipeline, STEPS)
    assert outcome.drawn == outcome.verified == outcome.learnt == STEPS * pipeline.samples
    assert 0 <= outcome.timeouts <= outcome.verified
    assert all(0 <= share <= 1 for share in (*outcome.busy.values(), outcome.filled))


@few
@given(pipelines)
def test_no_sample_is_staler_than_allowed(pipeline: Pipeline) -> None:
    assert simulate(pipeline, STEPS).stale <= pipeline.staleness


@few
@given(pipelines)
def test_without_staleness_a_step_is_the_sum_of_its_phases(pipeline: Pipeline) -> None:
    outcome = simulate(replace(pipeline, staleness=0), STEPS)
    assert outcome.step == pytest.approx(sum(outcome.phases.values()), rel=1e-6)


@few
@given(pipelines, st.integers(1, 30))
def test_more_cores_are_never_slower(pipeline: Pipeline, more: int) -> None:
    pipeline = replace(pipeline, staleness=0)
    few, many = simulate(pipeline, STEPS), simulate(replace(pipeline, cores=pipeline.cores + more), STEPS)
    assert many.step <= few.step * (1 + 1e-9) + (pipeline.controller * pipeline.samples)


@few
@given(pipelines)
def test_more_staleness_is_not_slower(pipeline: Pipeline) -> None:
    """All lengths and verification times are equal, so replicas are never idle."""
    plain = replace(pipeline, length=Spread(20), check=Spread(0.5), controller=0.0, prefill=0.0, staleness=0)
    assert simulate(replace(plain, staleness=2), 6).step <= simulate(plain, 6).step * 1.02


@few
@given(pipelines)
def test_with_much_staleness_the_slowest_part_sets_the_pace(pipeline: Pipeline) -> None:
    """The step time is the largest ratio of a step's work to a component's rate."""
    pipeline = replace(pipeline, length=Spread(20), check=Spread(0.5), replicas=1, prefill=0.0, controller=0)
    pipeline = replace(pipeline, staleness=8)
    outcome = simulate(pipeline, 60)
    pace = pipeline.decode + pipeline.decode_row * pipeline.rows
    slowest = max(
        pipeline.samples * 20 * pace / pipeline.rows,
        pipeline.samples * 0.5 / pipeline.cores,
        pipeline.learn,
    )
    latency = 20 * (pipeline.decode + pipeline.decode_row * pipeline.rows) + 0.5 + pipeline.learn + pipeline.publish
    bound = max(slowest, latency / 9)
    assert outcome.step <= 1.15 * bound + latency / 59
    assert outcome.step >= 0.8 * slowest


def test_one_row_by_hand() -> None:
    """2 samples of 10 tokens on one row: 0.5 s prompt, 10 x 0.1 s each; then 2 s of verification for each."""
    pipeline = Pipeline(1, 2, 1, 1, Spread(10), 0.5, 0.08, 0.02, 1, Spread(2), 0.2, learn=3, publish=1)
    outcome = simulate(pipeline, 3)
    assert outcome.phases["samplers"] == pytest.approx(0.5 + 2 * 10 * 0.1)
    # the first ends at 1.5 and is verified from 1.6 to 3.6, the second from 3.6 to 5.6; its verdict arrives at 5.7
    assert outcome.phases["verifiers"] == pytest.approx(5.7 - 2.5)
    assert outcome.step == pytest.approx(5.7 + 3 + 1)
    assert outcome.busy["learner"] == pytest.approx(3 * 3 / (3 * 9.7 - 1))


def test_rows_slow_each_other_down() -> None:
    base = Pipeline(1, 8, 1, 8, Spread(10), 0.0, 0.1, 0.05, 8, Spread(0.0), 0.0, learn=0, publish=0)
    assert simulate(base).step == pytest.approx(10 * (0.1 + 8 * 0.05))
    assert simulate(replace(base, replicas=8)).step == pytest.approx(10 * (0.1 + 0.05))


def test_the_tail_of_a_check_is_truncated_at_its_limit() -> None:
    drawn = Spread(1.0, 5.0, limit=4.0).draw((0,), 20_000)
    assert drawn.max() == 4.0
    free = Spread(1.0, 5.0).draw((0,), 200_000)
    assert free.mean() == pytest.approx(1.0, rel=0.02)
    assert sorted(free)[int(0.99 * len(free))] == pytest.approx(5.0, rel=0.03)


def test_a_tail_heavier_than_any_log_normal_keeps_mean_and_percentile() -> None:
    drawn = Spread(0.1, 6.0).draw((0,), 200_000)
    assert drawn.mean() == pytest.approx(0.1, rel=0.03)
    ordered = sorted(drawn)
    assert ordered[int(0.985 * len(drawn))] < 0.1
    assert ordered[int(0.995 * len(drawn))] == 6.0


@pytest.mark.parametrize("p99", [0.05, 10.1])
def test_an_impossible_percentile_is_rejected(p99: float) -> None:
    with pytest.raises(ConfigError, match="at least the mean and at most 100 times"):
        Spread(0.1, p99)


def test_the_number_of_cores_is_sufficient_and_small() -> None:
    pipeline = Pipeline(8, 8, 4, 16, Spread(50, 100, 200), 0.1, 0.02, 0.001, 1, Spread(2, 8, 20), 0.0, 2, 0.5, 1)
    cores = cores_needed(pipeline)
    free = simulate(replace(pipeline, cores=1000), 4).step
    assert simulate(replace(pipeline, cores=cores), 4).step <= CORES_TOLERANCE * free
    assert simulate(replace(pipeline, cores=math.ceil(cores / 2)), 4).step > CORES_TOLERANCE * free
