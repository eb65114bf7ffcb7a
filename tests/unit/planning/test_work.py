"""Operations and bytes computed by hand, and rates recovered from data generated with them."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.memory.footprint import TrainingSetup
from steelyard.memory.model_shape import KNOWN_SHAPES, decoder
from steelyard.planning.hardware import ACCELERATORS
from steelyard.planning.rates import Efficiency, Rates, fit, learning_rates, sampling_rates
from steelyard.planning.work import CALLS, Work, decode, prefill, score, update

SHAPE = decoder(layers=3, width=8, feed_forward=20, heads=2, kv_heads=1, vocabulary=10)
FULL, LORA = TrainingSetup(4), TrainingSetup(4, 2)
ATTENTION = 4 * 8 * 3
"""Operations per token in all layers, for each attended token."""


def test_training_costs_six_operations_per_parameter_and_token() -> None:
    """Kaplan et al.: 6 N D, plus a second pass of the output layer (8) and attention."""
    work = update(SHAPE, FULL, sequences=4, length=6, decisions=2, passes=1)
    assert work.flops == 24 * 3 * (2 * SHAPE.linear + ATTENTION * 3) + 8 * 8 * 10 * 8
    assert work.calls == 3 * 3 * CALLS


def test_lora_saves_the_gradient_of_the_weights() -> None:
    adapter = 2 * SHAPE.lora_parameters_per_rank
    work = update(SHAPE, LORA, sequences=4, length=6, decisions=2, passes=1)
    body = 4 * SHAPE.linear + 6 * adapter + 3 * ATTENTION * 3
    assert work.flops == 24 * body + 8 * 6 * 10 * 8
    assert work.state == adapter * 2 * (4 + 4 + 8)


def test_checkpointing_repeats_the_forward_pass() -> None:
    plain = update(SHAPE, FULL, 4, 6, 2, 1)
    again = update(SHAPE, TrainingSetup(4, checkpointing=True), 4, 6, 2, 1)
    assert again.flops - plain.flops == 24 * (2 * SHAPE.linear + ATTENTION * 3)


def test_scoring_is_a_forward_pass_with_the_head_at_decisions() -> None:
    work = score(SHAPE, FULL, sequences=4, length=6, decisions=2, passes=1)
    assert work.flops == 24 * (2 * SHAPE.linear + ATTENTION * 3) + 8 * 2 * 10 * 8
    assert work.logits == 8 * 10


def test_decoding_reads_the_weights_once_and_every_row_its_cache() -> None:
    one, two = decode(SHAPE, FULL, 1, 7), decode(SHAPE, FULL, 2, 7)
    assert one.weights == two.weights == 4 * SHAPE.parameters
    assert (one.cache, two.cache) == (7 * 4 * SHAPE.cached, 2 * 7 * 4 * SHAPE.cached)
    assert one.flops == 2 * SHAPE.matmul_parameters + ATTENTION * 7
    assert prefill(SHAPE, FULL, 1, 6).flops == 6 * (2 * SHAPE.linear + ATTENTION * 3)


def test_work_adds_up() -> None:
    assert Work(calls=1, flops=2) + Work(flops=3).times(2) == Work(calls=1, flops=8)


def test_fitted_rates_equal_the_true_rates() -> None:
    rng = np.random.default_rng(0)
    true = Rates(calls=1e-5, flops=1e-11, cache=0.0, tokens=3e-4)
    works = [Work(*row) for row in rng.uniform(1, 2, (12, 8)) * [1e4, 1e10, 0, 1e9, 0, 0, 0, 1e3]]
    found = fit(works, [true.seconds(work) for work in works], ("calls", "flops", "cache", "tokens"))
    assert found.values() == pytest.approx(true.values(), rel=1e-3, abs=1e-16)


def test_no_rate_is_negative() -> None:
    works = [Work(calls=1, flops=1), Work(calls=2, flops=1), Work(calls=3, flops=1)]
    found = fit(works, [3.0, 2.0, 1.0], ("calls", "flops"))
    assert found.calls == 0
    assert found.flops > 0


def test_a_14b_model_on_two_h100_decodes_as_fast_as_its_weights_are_read() -> None:
    shape, kind = KNOWN_SHAPES["qwen2.5-14b"], ACCELERATORS["h100"]
    rates = sampling_rates(kind, 2, Efficiency(call=0, bandwidth=1))
    seconds = rates.seconds(decode(shape, TrainingSetup(2), 1, 0))
    assert seconds == pytest.approx(2 * shape.parameters / (2 * 3.35e12), rel=0.02)


def test_learning_is_proportionally_faster_with_more_learners() -> None:
    work = update(SHAPE, FULL, 4, 6, 2, 1)
    one, four = (learning_rates(ACCELERATORS["a100"], n, Efficiency()).seconds(work) for n in (1, 4))
    assert one == pytest.approx(4 * four)
