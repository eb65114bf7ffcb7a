"""Capacity plans for a run: memory, traffic, weight publication, and the predictions of the benchmark."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from steelyard.memory.footprint import TrainingSetup
from steelyard.memory.model_shape import KNOWN_SHAPES
from steelyard.planning.hardware import ACCELERATORS, Machines
from steelyard.planning.plan import (
    Deployment,
    PlannedRun,
    learner_work,
    learning,
    microbatch,
    plan_memory,
    predict,
    publication,
    published_bytes,
)
from steelyard.planning.simulation import Spread

H100 = ACCELERATORS["h100"]
LORA = PlannedRun(
    KNOWN_SHAPES["qwen2.5-14b"], TrainingSetup(2, 64, state=2, checkpointing=True), 8, 64, 512, Spread(800)
)
FULL = replace(LORA, training=TrainingSetup(2, checkpointing=True))
NODE = Deployment(Machines(8, H100), tensor=2)
CLUSTER = Deployment(Machines(64, H100), samplers=Machines(192, H100), staleness=1)


def test_lora_is_replicated_and_full_training_is_sharded() -> None:
    apart = replace(NODE, samplers=Machines(8, H100))
    assert not plan_memory(LORA, apart).sharded
    full = plan_memory(FULL, apart)
    assert full.sharded
    assert full.fits
    assert full.learner.optimiser == 2 * 2 * FULL.shape.parameters / 8


def test_samplers_on_the_learners_gpu_have_less_cache() -> None:
    with_it, apart = plan_memory(LORA, NODE), plan_memory(LORA, replace(NODE, samplers=Machines(8, H100)))
    assert with_it.wanted == with_it.learner.update + with_it.sampler_weights
    assert apart.wanted == apart.learner.update
    long = replace(LORA, length=Spread(30_000), max_rows=10**6)
    assert plan_memory(long, NODE).rows < plan_memory(long, replace(NODE, samplers=Machines(8, H100))).rows
    assert apart.fits


def test_sharding_can_be_chosen() -> None:
    apart = replace(NODE, samplers=Machines(8, H100))
    assert plan_memory(LORA, replace(apart, sharded=True)).sharded
    assert not plan_memory(FULL, replace(apart, sharded=False)).sharded
    assert not plan_memory(LORA, replace(apart, learners=Machines(1, H100), sharded=True)).sharded


def test_a_sampling_engine_takes_its_share() -> None:
    """0.4 of 80 GB minus 29.5 GB of weights is cache for rows of 512 / 64 + 800 tokens at 196,608 bytes each."""
    apart = replace(NODE, samplers=Machines(8, H100), tensor=1)
    few = plan_memory(LORA, replace(apart, share=0.4))
    row = 2 * 98304 * (512 / 64 + 800)
    assert few.rows == int((0.4 * 80e9 - 2 * LORA.shape.parameters) // row) == 15
    beside = plan_memory(LORA, replace(NODE, learners=Machines(1, H100), tensor=1, share=0.4))
    assert beside.rows == few.rows
    assert beside.wanted == beside.learner.update + 0.4 * 80e9
    assert plan_memory(LORA, replace(apart, cache=10.5 * row, share=0.4)).rows == 10
    assert plan_memory(LORA, replace(apart, cache=51e9)).rows == 0  # 80.5 GB with the weights


def test_a_model_that_is_too_large_does_not_fit() -> None:
    large = replace(FULL, shape=KNOWN_SHAPES["llama-3.1-70b"])
    assert not plan_memory(large, NODE).fits


def test_a_microbatch_has_complete_sequences() -> None:
    assert microbatch(LORA, H100.memory) == LORA.sequence
    assert microbatch(replace(LORA, microbatch=5000), H100.memory) == 3 * LORA.sequence


def test_shards_cost_traffic_for_every_pass_and_copies_only_gradients() -> None:
    apart = replace(NODE, samplers=Machines(8, H100))
    *_, little = learning(LORA, apart, plan_memory(LORA, apart))
    trained = 4 * LORA.training.trained(LORA.shape)
    assert little == pytest.approx(2 * trained * 7 / 8 / (0.7 * H100.link))
    *_, much = learning(FULL, apart, plan_memory(FULL, apart))
    passes = math.ceil(512 * FULL.sequence / 8 / microbatch(FULL, H100.memory))
    gathered = passes * 2 * FULL.shape.parameters * 3 + 2 * 2 * FULL.shape.parameters
    assert much == pytest.approx(gathered * 7 / 8 / (0.7 * H100.link))


def test_several_optimiser_steps_need_old_log_probs_and_move_more_state() -> None:
    once, thrice = learner_work(LORA, (0, 0)), learner_work(replace(LORA, updates=3), (0, 0))
    assert thrice[0].flops == 2 * once[0].flops
    assert thrice[1].state == 3 * once[1].state
    assert thrice[1].flops == once[1].flops
    assert learner_work(replace(LORA, updates=2, epochs=2), (0, 0))[1].flops == 2 * once[1].flops


def test_weights_are_sent_from_node_to_node() -> None:
    size = published_bytes(FULL, NODE)
    assert size == published_bytes(FULL, CLUSTER) == 2 * FULL.shape.parameters
    assert published_bytes(LORA, CLUSTER) == size  # merged
    assert published_bytes(LORA, NODE) == 4 * 64 * LORA.shape.lora_parameters_per_rank
    assert publication(size, NODE) == size / NODE.publish
    assert publication(size, CLUSTER) == (1 + 5) * size / CLUSTER.publish
    assert publication(size, replace(CLUSTER, tree=False)) == (1 + 24) * size / CLUSTER.publish


def test_separate_machines_overlap() -> None:
    run = replace(LORA, tasks=64)
    overlapped = predict(run, CLUSTER).outcome
    in_turn = predict(run, replace(CLUSTER, staleness=0)).outcome
    assert overlapped.step < in_turn.step
    assert overlapped.stale == 1
    assert in_turn.stale == 0


def test_twice_the_learners_halve_its_time() -> None:
    one = predict(LORA, replace(NODE, samplers=Machines(8, H100)))
    two = predict(LORA, replace(NODE, learners=Machines(16, H100), samplers=Machines(8, H100)))
    assert two.update == pytest.approx(one.update / 2)
