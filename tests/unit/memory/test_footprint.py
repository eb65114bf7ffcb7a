"""Memory estimates computed by hand."""

from __future__ import annotations

import pytest

from steelyard.memory.footprint import (
    BatchSize,
    Footprint,
    MemoryEstimate,
    TrainingSetup,
    activation_bytes,
    default_chunk,
    default_microbatch_tokens,
    estimate_methods,
    footprint,
    layer_activations,
)
from steelyard.memory.model_shape import ModelShape, decoder

SHAPE = ModelShape(1, 1, 1, 1, 1, 1, 1, parameters=1000, linear=800, lora_parameters_per_rank=10)
DECODER = decoder(layers=3, width=8, feed_forward=20, heads=2, kv_heads=1, vocabulary=10)


def test_full_training_is_weights_reference_gradients_and_adam() -> None:
    single, eight_bit, half = estimate_methods(SHAPE)[:3]
    assert (single.rollout, single.update) == (
        (2 * 4 + 8) * 1000,
        (2 * 4 + 8 + 4) * 1000,
    )
    assert single.update - eight_bit.update == 6 * 1000
    assert (half.rollout, half.update) == (single.rollout / 2, single.update / 2)


def test_without_kl_there_is_no_reference() -> None:
    assert footprint(SHAPE, TrainingSetup(4, reference=False)).peak == (4 + 8 + 4) * 1000


def test_lora_trains_only_the_adapter_and_quantises_the_linear_layers() -> None:
    half, eight_bit, four_bit = estimate_methods(SHAPE, rank=2)[3:]
    adapter = 2 * 10
    assert half.update == 2 * 1000 + (4 + 4 + 8) * adapter
    assert half.update - half.rollout == 4 * adapter
    assert half.rollout - eight_bit.rollout == 800
    assert half.rollout - four_bit.rollout == 1200


@pytest.mark.parametrize(("memory", "verdict"), [(1000, "fits"), (900, "tight"), (799, "no")])
def test_a_fifth_is_left_for_activations(memory: int, verdict: str) -> None:
    need = MemoryEstimate("some way", Footprint(weights=800, reference=0, optimiser=0, gradients=0))
    assert need.fits(memory) == verdict


def test_ranks_shard_persistent_memory_and_gather_two_layers() -> None:
    whole, part = footprint(DECODER, TrainingSetup(2)), footprint(DECODER, TrainingSetup(2), ranks=4)
    assert part.optimiser == whole.optimiser / 4
    assert part.gradients == whole.gradients / 4
    assert part.reference == whole.reference / 4
    assert part.weights == whole.weights / 4 + 2 * 2 * DECODER.linear / 3


def test_a_layer_stores_what_its_backward_pass_needs() -> None:
    norms, attention, feed_forward = 2 * 8 * 4, 4 * 8 * 4, 3 * 20 * 4
    inputs = (4 * 8 + 20) * 4
    assert layer_activations(DECODER, TrainingSetup(4), 5) == norms + attention + feed_forward + inputs
    kept = layer_activations(DECODER, TrainingSetup(2), 5)
    assert layer_activations(DECODER, TrainingSetup(2, eager=True), 5) - kept == (4 + 2) * 2 * 5
    assert activation_bytes(DECODER, TrainingSetup(2), 5) == 4 * kept
    assert activation_bytes(DECODER, TrainingSetup(2, checkpointing=True), 5) == 3 * 2 * 8 + 2 * kept


def test_an_adapter_stores_inputs_in_float32() -> None:
    norms, attention, feed_forward = 2 * 8 * 4, 4 * 8 * 2, 3 * 20 * 2
    inputs, outputs = 5 * 8 + 8 + 20, 8 + 2 * 4 + 2 * 8 + 2 * 20
    expected = norms + attention + feed_forward + 4 * (inputs + 7 * 4 + 2 * outputs)
    assert layer_activations(DECODER, TrainingSetup(2, 4), 5) == expected
    once = layer_activations(DECODER, TrainingSetup(4, 4), 5)
    assert once == norms + 2 * (attention + feed_forward) + 4 * (2 * 8 + 20 + 7 * 4 + 2 * outputs)


def test_the_peak_is_the_sum_of_both_phases() -> None:
    found = footprint(DECODER, TrainingSetup(4), BatchSize(rows=100, length=8, microbatch=16, chunk=4))
    assert found.cache == 100 * 8 * 4 * DECODER.cached
    assert found.rollout == found.persistent + found.cache
    assert found.activations == 16 * activation_bytes(DECODER, TrainingSetup(4), 8)
    assert found.logits == 4 * 4 * 4 * 10 + 2 * 4 * 10 * 8
    assert found.peak == found.persistent + found.gradients + found.activations + found.logits + found.cache


def test_microbatches_and_chunks_stay_within_their_budget() -> None:
    assert default_microbatch_tokens(576, 30, adapted=False, weight=2) == 400 * 2**20 // (55 * 576 * 30 * 2)
    assert default_microbatch_tokens(576, 30, adapted=True, weight=2) == 400 * 2**20 // (90 * 576 * 30 * 2)
    assert default_microbatch_tokens(8192, 80, adapted=True, weight=2) == 96
    assert default_chunk(49152, cpu=True) == 128
    assert default_chunk(50, cpu=True) == 1024
    assert default_chunk(152064, cpu=False) == 256 * 2**20 // (4 * 152064)
