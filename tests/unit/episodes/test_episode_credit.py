"""Credit for episodes, computed by hand: spans of turns and steps, rejected episodes, penalties, and rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from steelyard.algorithms.advantages import rloo
from steelyard.algorithms.kl import AdaptiveKL
from steelyard.environments import Environment, EnvironmentVerifier
from steelyard.policies.tokens.conversation import Conversations
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.sampling.local import LocalSampler
from steelyard.training.credit import Credit, LengthPenalty
from steelyard.training.episodes import EpisodeLimits, Episodes
from steelyard.training.learner_samples import LearnerSample, load_samples, save_samples
from steelyard.training.phases import collect
from steelyard.types import FinishReason, Group, Sample, Task, Turn, Verdict
from steelyard.verification import InlinePool
from tests.tiny import sample_of, tiny_learner, tiny_policy

TEXT = "ab"
"""The text of each policy turn; every reply is ``xyz``."""


def episode(*rows: int, sample: int = 0, length: int = 2, finish: FinishReason = "stop") -> Sample:
    """Return an episode with this many turns per row; a turn has ``length`` decisions of one character each."""
    parts: list[Sample] = []
    turns: list[Turn] = []
    text = ""
    for number, count in enumerate(rows):
        place, decided, starts = 1, list[int](), list[int]()
        for turn in range(count):
            if text:
                text += "xyz"
                end = place + (0 if turn == 0 else 1)
                turns.append(Turn("user", "xyz", end - 1, end, number))
                place = end
            turns.append(Turn("assistant", TEXT, place, place + length, number))
            decided += range(place, place + length)
            starts += range(len(text), len(text) + length)
            place, text = place + length, text + TEXT
        parts.append(sample_of([5] * place, key=(0, 0, 0, sample), decided=decided, starts=starts, finish=finish))
    return replace(parts[-1], text=text, turns=tuple(turns), earlier_rows=tuple(parts[:-1]))


def turned(*rewards: float, status: Any = "scored") -> Verdict:
    return Verdict(status, sum(rewards), turn_rewards=rewards)


def raw(reward_M: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return reward_M


def advantages(
    credit: Credit, samples: Sequence[Sample], verdicts: Sequence[Verdict], **options: Any
) -> list[list[float]]:
    group = Group(Task("t", ""), tuple(samples), tuple(verdicts))
    return [item.advantage_N.tolist() for item in credit.assign([group], **options)]


def test_a_turn_is_compared_with_the_others_returns_from_that_turn_on() -> None:
    """Returns are (6, 5, 3) and (4, 2); in the third turn, the shorter episode keeps its last return."""
    samples = [episode(3), episode(2, sample=1)]
    found = advantages(Credit(rloo), samples, [turned(1.0, 2.0, 3.0), turned(2.0, 2.0)])
    assert found == [[2.0, 2.0, 3.0, 3.0, 1.0, 1.0], [-2.0, -2.0, -3.0, -3.0]]
    whole = advantages(Credit(rloo, per="episode"), samples, [turned(1.0, 2.0, 3.0), turned(2.0, 2.0)])
    assert whole == [[2.0] * 6, [-2.0] * 4]


def test_rows_of_a_forked_episode_continue_its_turns() -> None:
    samples, verdicts = [episode(1, 2), episode(3, sample=1)], [turned(1.0, 2.0, 4.0), turned(0.0, 0.0, 0.0)]
    found = advantages(Credit(raw, min_scored=1), samples, verdicts)
    assert found[:2] == [[7.0, 7.0], [6.0, 6.0, 4.0, 4.0]]


def test_an_episode_without_turn_rewards_has_turns_too() -> None:
    """The first episode's return is always 3; in the second turn, it is compared with the other episode's return of 1.

    If the episode were a single span, a turn's baseline would depend on the rewards of other turns.
    """
    samples = [episode(2), episode(2, sample=1)]
    assert advantages(Credit(rloo), samples, [Verdict.scored(3.0), turned(5.0, 1.0)])[0] == [-3.0, -3.0, 2.0, 2.0]
    discounted = advantages(Credit(raw, gamma=0.5), samples, [Verdict.scored(4.0), turned(5.0, 1.0)])
    assert discounted[0] == [2.0, 2.0, 4.0, 4.0]


def test_an_undeclared_floor_lowers_every_return_of_a_rejected_episode() -> None:
    """The rejected episode's first reply earned 1 and the scored episode has -2, so its returns are -2 and -2 - 1."""
    samples = [episode(2), episode(2, sample=1)]
    rejected = replace(Verdict.rejected("no result"), turn_rewards=(1.0, -1.0))
    assert advantages(Credit(raw), samples, [rejected, turned(0.0, -2.0)])[0] == [-2.0, -2.0, -3.0, -3.0]
    found = advantages(Credit(raw, gamma=0.5), samples, [rejected, turned(-2.0, 0.0)])[0]
    assert found[0] == -2.0, "not above the scored episode"


def test_step_rewards_by_offset_cross_rows() -> None:
    """The text is ``ab xyz ab xyz ab`` without spaces. Steps end at 6 (within the second turn) and at 12."""
    sample = episode(2, 1)
    assert sample.text == "abxyzabxyzab"
    assert [row.decisions.text_start_N.tolist() for row in sample.rows if row.decisions.text_start_N is not None] == [
        [0, 1, 5, 6],
        [10, 11],
    ]
    verdicts = [Verdict.scored(3.0, steps=((6, 1.0), (12, 2.0)))]
    assert advantages(Credit(raw, min_scored=1), [sample], verdicts) == [[3.0, 3.0, 3.0, 2.0], [2.0, 2.0]]
    assert advantages(Credit(raw, min_scored=1, per="episode"), [sample], verdicts) == [[3.0] * 4, [3.0] * 2]


def test_a_long_turn_is_penalised_in_its_own_turn_and_truncation_at_the_end() -> None:
    """Turns of 4 tokens lose 1 each (limit 4, buffer 2); being cut off costs another 3."""
    credit = Credit(raw, min_scored=1, length_penalty=LengthPenalty(4, 2), truncated="penalise", truncation_penalty=3.0)
    sample = episode(1, 1, length=4, finish="turns")
    assert advantages(credit, [sample], [turned(1.0, 2.0)]) == [[-2.0] * 4, [-2.0] * 4]
    assert advantages(replace(credit, gamma=0.0), [sample], [turned(1.0, 2.0)]) == [[0.0] * 4, [-2.0] * 4]
    assert advantages(replace(credit, per="episode"), [sample], [turned(1.0, 2.0)]) == [[-2.0] * 4] * 2
    short = [episode(1, 1)]
    assert advantages(credit, short, [turned(1.0, 2.0)]) == [[3.0] * 2, [2.0] * 2], "short turns are not added up"


def test_kl_in_the_reward_is_subtracted_in_its_turn() -> None:
    samples, verdicts = [episode(1, 1)], [turned(1.0, 2.0)]
    penalties = iter([np.array([0.25, 0.25]), np.array([0.0, 1.0])])
    found = advantages(Credit(raw, min_scored=1), samples, verdicts, penalties=lambda _: next(penalties))
    assert found == [[1.5, 1.5], [1.0, 1.0]]


def test_every_denominator_counts_episodes() -> None:
    policy = tiny_policy()
    groups = [Group(Task("t", ""), (episode(1, 2), episode(2, sample=1)), (turned(0.0, 0.0, 1.0), turned(0.0, 0.0)))]
    items = [LearnerSample(item.sample, item.advantage_N, number=item.number) for item in Credit().assign(groups)]
    expected = {"constant": {1 / 20}, "sequence_mean": {1 / 12, 1 / 8}, "token_mean": {1 / 10}}
    for aggregation, weights in expected.items():
        learner = tiny_learner(policy, aggregation=aggregation, constant_length=10)
        found = [weight for part in learner._weights([items[:1], items[1:]]) for weight in part.tolist()]
        assert {round(weight, 6) for weight in found} == {round(weight, 6) for weight in weights}


def test_adaptive_kl_counts_episodes() -> None:
    """The coefficient grows by 20% times samples / horizon; two episodes with three rows count as two samples."""
    group = Group(Task("t", ""), (episode(1, 2), episode(2, sample=1)), (turned(0.0, 0.0, 1.0), turned(0.0, 0.0)))
    items = [
        LearnerSample(item.sample, item.advantage_N, None, item.sample.decisions.logp_N, item.number)
        for item in Credit().assign([group])
    ]
    learner = tiny_learner(tiny_policy(), kl=1.0, adaptive=AdaptiveKL(1e-9, horizon=100))
    learner.update(items, 0)
    assert learner.kl_coefficient(1) == pytest.approx(1 + 0.2 * 2 / 100)


def test_a_quarantined_batch_keeps_which_rows_belong_together(tmp_path: Any) -> None:
    items = [LearnerSample(row, np.zeros(len(row.decisions), np.float32), number=7) for row in episode(1, 2).rows]
    save_samples(tmp_path, items, {})
    assert [item.number for item in load_samples(tmp_path)] == [7, 7]


class Graded(Environment):
    """Ends the episode after the second turn, with the turn rewards given by the task."""

    isolate = False

    def reply(self, task: Task, turns: Any) -> Any:
        return "1" if len(turns) == 1 else Verdict("scored", 3.0, turn_rewards=task.spec["rewards"])


@pytest.mark.parametrize(
    ("rewards", "complaint"),
    [
        ((1.0, 2.0), ""),
        ((1.0, 1.0, 1.0), "3 turn rewards, but the policy wrote 2 turns"),
        ((1.0, 1.0), "add up to 2, but the reward of the episode is 3"),
    ],
)
def test_turn_rewards_that_do_not_fit_the_episode_are_a_failure(rewards: tuple[float, ...], complaint: str) -> None:
    policy = tiny_policy(words=[str(number) for number in range(7)], sharpness=2.0)
    pool = InlinePool(EnvironmentVerifier(Graded()))
    episodes = Episodes(LocalSampler(policy, seed=0), pool, Conversations(policy.codec), EpisodeLimits(4))
    request = SampleRequest(Task("t", "1 2", {"rewards": rewards}), 0, 0, 8)
    (group,) = collect(episodes, episodes.verdicts, [request], Decoding(max_new_tokens=12))
    found = [v for s, v in zip(group.samples, group.verdicts, strict=True) if s.finish == "stop"]
    assert found
    for verdict in found:
        assert (verdict.status, verdict.cause) == (("unscored", "bad return") if complaint else ("scored", ""))
        assert complaint in verdict.reason
