"""The samples of an update: minibatches, microbatches and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.training.learner_samples import LearnerSample, by_length, load_samples, minibatches, save_samples
from steelyard.types import CutRule
from tests.tiny import rollout, sample_of, tiny_policy, with_advantages


def numbered(count: int) -> list[LearnerSample]:
    return with_advantages([sample_of([1] * (2 + index % 3), key=(0, 0, 0, index)) for index in range(count)])


def indices(part: list[LearnerSample]) -> list[int]:
    return [item.sample.key.sample for item in part]


def test_one_minibatch_keeps_the_order() -> None:
    parts = list(minibatches(numbered(5), 1, 2, (0, 3)))
    assert [indices(part) for part in parts] == [[0, 1, 2, 3, 4]] * 2


@pytest.mark.parametrize("count", [2, 3, 7])
def test_each_epoch_covers_every_sample_once_in_another_order(count: int) -> None:
    parts = [indices(part) for part in minibatches(numbered(7), count, 2, (0, 3))]
    assert len(parts) == 2 * count
    epochs = [[index for part in parts[at : at + count] for index in part] for at in (0, count)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(7))] * 2
    assert epochs[0] != epochs[1]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_the_order_is_a_function_of_seed_and_step() -> None:
    def order(*seed: int) -> list[list[int]]:
        return [indices(part) for part in minibatches(numbered(9), 3, 1, seed)]

    assert order(0, 3) == order(0, 3)
    assert order(0, 3) != order(0, 4)
    assert order(0, 3) != order(1, 3)


def test_more_minibatches_than_samples() -> None:
    assert [len(part) for part in minibatches(numbered(2), 5, 1, (0,))] == [1, 1]


@pytest.mark.parametrize("tokens", [1, 10, 30, 1000])
def test_batches_by_length_respect_the_token_limit(tokens: int) -> None:
    lengths = [3, 9, 1, 9, 4, 4, 7, 2, 12, 1]
    batches = by_length(lengths, tokens)
    assert sorted(index for batch in batches for index in batch) == list(range(10))
    flat = [lengths[index] for batch in batches for index in batch]
    assert flat == sorted(flat, reverse=True)
    assert all(len(batch) == 1 or len(batch) * lengths[batch[0]] <= tokens for batch in batches)


def test_batches_by_length_are_filled() -> None:
    """12 alone (2 x 12 > 20), then 9 9, then 7 4, then the rest, 4 3 2 1 1, within 20 tokens."""
    lengths = [3, 9, 1, 9, 4, 4, 7, 2, 12, 1]
    assert [[lengths[i] for i in batch] for batch in by_length(lengths, 20)] == [[12], [9, 9], [7, 4], [4, 3, 2, 1, 1]]


def same_array(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def test_samples_survive_a_round_trip_bit_for_bit(tmp_path: Path) -> None:
    """Includes samples with and without supports and log-probs, NaN values and text beyond ASCII."""
    policy = tiny_policy()
    drawn = rollout(policy, count=2, rule=CutRule(0.7, 4)) + rollout(policy, count=1)
    drawn += rollout(policy, count=1, rule=CutRule(top_k=1))  # no decisions, so the support table is empty
    made = with_advantages([*drawn, sample_of([1, 2, 3], 2, text="ß “x”\n", finish="length")])
    made[0].advantage_N[:] = np.nan
    ones = [np.full(len(item.sample.decisions), -0.1, np.float32) for item in made]
    saved = [LearnerSample(item.sample, item.advantage_N, one, -one) for item, one in zip(made[:3], ones, strict=False)]
    saved += made[3:]
    save_samples(tmp_path / "deep" / "batch", saved, {"step": 3})
    loaded = load_samples(tmp_path / "deep" / "batch")
    assert len(loaded) == len(saved)
    for one, other in zip(saved, loaded, strict=True):
        a, b = one.sample, other.sample
        assert (a.key, a.prompt_length, a.text, a.finish, a.policy_version) == (
            b.key,
            b.prompt_length,
            b.text,
            b.finish,
            b.policy_version,
        )
        assert a.decisions.rule == b.decisions.rule
        pairs = [(a.token_ids, b.token_ids), (one.advantage_N, other.advantage_N)]
        pairs += [(one.old_logp_N, other.old_logp_N), (one.reference_logp_N, other.reference_logp_N)]
        pairs += [
            (getattr(a.decisions, n), getattr(b.decisions, n))
            for n in ("position_N", "forward_N", "logp_N", "text_start_N")
        ]
        pairs += [(a.decisions.support_N, b.decisions.support_N)]
        if a.decisions.supports is not None:
            assert b.decisions.supports is not None
            one_table, other_table = a.decisions.supports, b.decisions.supports
            pairs += [(getattr(one_table, name), getattr(other_table, name)) for name in ("form", "start", "data")]
            assert one_table.vocabulary == other_table.vocabulary
        assert all(same_array(x, y) for x, y in pairs)
        assert (a.decisions.supports is None) == (b.decisions.supports is None)
