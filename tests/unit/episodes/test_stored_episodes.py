"""Forked episodes in files and on several learner ranks: training gives the same result, and an episode counts once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from steelyard.training.credit import Credit
from steelyard.training.learner_samples import LearnerSample, by_length, load_samples, save_samples
from steelyard.training.ranks import Ranks
from steelyard.training.sample_files import load_groups, save_groups
from steelyard.types import CutRule, Group, Sample
from tests.tiny import gradients_of, tiny_learner, tiny_policy, weights_of
from tests.unit.episodes.test_episodes import play


def forked() -> tuple[Any, list[Group]]:
    policy, groups = play(5, 5, forking=True, rule=CutRule(0.8, 0, 0.98), count=6)
    assert any(sample.earlier_rows for group in groups for sample in group.samples)
    return policy, groups


def items(groups: list[Group]) -> list[LearnerSample]:
    credited = Credit(min_scored=1).assign(groups)
    return [LearnerSample(item.sample, item.advantage_N, number=item.number) for item in credited]


def assert_same(one: Sample, other: Sample) -> None:
    assert (one.key, one.text, one.finish, one.turns, one.prompt_length) == (
        other.key,
        other.text,
        other.finish,
        other.turns,
        other.prompt_length,
    )
    assert one.token_ids.tobytes() == other.token_ids.tobytes()
    for name in ("position_N", "forward_N", "logp_N", "support_N", "text_start_N"):
        ours, theirs = getattr(one.decisions, name), getattr(other.decisions, name)
        assert (ours is None) == (theirs is None)
        assert ours is None or np.array_equal(ours, theirs)


def test_training_on_stored_forked_episodes_is_bitwise_identical(tmp_path: Path) -> None:
    _, groups = forked()
    save_groups(tmp_path, groups)
    loaded = load_groups(tmp_path)
    for group, other in zip(groups, loaded, strict=True):
        assert group.verdicts == other.verdicts
        for sample, again in zip(group.samples, other.samples, strict=True):
            assert len(sample.rows) == len(again.rows)
            for row, row_again in zip(sample.rows, again.rows, strict=True):
                assert_same(row, row_again)
    ends: list[dict[str, torch.Tensor]] = []
    for played in (groups, loaded):
        policy = tiny_policy(words=[str(number) for number in range(7)], sharpness=2.0)
        start = weights_of(policy)
        tiny_learner(policy, minibatches=2).update(items(played), 0)
        ends.append(weights_of(policy))
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    assert any(not torch.equal(ends[0][name], start[name]) for name in start)


def test_rows_of_an_episode_stay_one_sample_in_a_stored_batch(tmp_path: Path) -> None:
    _, groups = forked()
    made = items(groups)
    save_samples(tmp_path, made, {})
    loaded = load_samples(tmp_path)
    assert [item.number for item in loaded] == [item.number for item in made]
    assert len({item.number for item in made}) < len(made)
    for one, other in zip(made, loaded, strict=True):
        assert_same(one.sample, other.sample)


def rank_of(rank: int) -> Ranks:
    ranks = Ranks()
    ranks.rank, ranks.size = rank, 2
    return ranks


@pytest.mark.parametrize("aggregation", ["sequence_mean", "token_mean"])
def test_episodes_whose_rows_are_on_different_ranks_count_once(aggregation: str) -> None:
    policy, groups = forked()
    made = items(groups)
    order = [batch[0] for batch in by_length([len(item.sample.token_ids) for item in made], 1)]
    of_rank = [{made[index].number for index in order[rank::2]} for rank in range(2)]
    assert of_rank[0] & of_rank[1], "some episode has rows on both ranks"
    learner = tiny_learner(policy, microbatch_tokens=1, grad_clip=None, aggregation=aggregation)
    alone = gradients_of(learner, made)
    parts: list[dict[str, torch.Tensor]] = []
    for rank in range(2):
        learner.ranks = rank_of(rank)
        parts.append(gradients_of(learner, made))
    for name, gradient in alone.items():
        torch.testing.assert_close(parts[0][name] + parts[1][name], gradient, rtol=1e-4, atol=1e-6)


def test_the_adaptive_kl_coefficient_counts_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, groups = forked()
    made, seen = items(groups), list[int]()
    learner = tiny_learner(policy)
    monkeypatch.setattr(learner, "_adapt_kl", lambda _, samples: seen.append(samples))
    learner.update(made, 0)
    assert seen == [len({item.number for item in made})]
