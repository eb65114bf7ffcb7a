"""Episodes from the first turn to the verdict: exact tokens, limits, credit per turn, and forked rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from steelyard.environments import Environment, EnvironmentVerifier
from steelyard.policies.tokens.conversation import Continuation, Conversation, Conversations
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.sampling.local import LocalSampler
from steelyard.training.credit import Credit
from steelyard.training.episodes import EpisodeLimits, Episodes
from steelyard.training.learner_samples import LearnerSample, minibatches, sample_labels
from steelyard.training.phases import collect
from steelyard.types import CutRule, Group, Reply, Task
from steelyard.verification import InlinePool
from tests.tiny import tiny_policy


class Turns(Environment):
    """Replies until the task's number of turns is reached; the reward of each turn is its number."""

    isolate = False

    def reply(self, task: Task, turns: Any) -> Any:
        written = sum(turn["role"] == "assistant" for turn in turns)
        if written == task.spec["turns"]:
            return float(len(turns[-1]["content"]))
        return Reply.text(str(written), reward=float(written))

    def cut_off(self, task: Task, turns: Any, limit: Any) -> Any:
        return {"length": 0.25, "turns": 0.5, "episode_length": 0.75}[limit]


class Forking(Conversations):
    """Starts a new row after every second reply, as a template that rewrites the conversation would."""

    def open(self, prompt: Any) -> Conversation:
        return ForkingConversation(self)


class ForkingConversation(Conversation):
    replies = 0

    def reply(self, written: str, end: str, reply: Any) -> Continuation:
        appended = super().reply(written, end, reply)
        self.replies += 1
        return Continuation((4, 5, *appended.ids), forks=True) if self.replies % 2 == 0 else appended


def play(
    *turns: int, limits: EpisodeLimits | None = None, forking: bool = False, rule: CutRule | None = None, count: int = 3
) -> tuple[Any, list[Group]]:
    policy = tiny_policy(words=[str(number) for number in range(7)], sharpness=2.0)
    conversations = (Forking if forking else Conversations)(policy.codec)
    sampler, pool = LocalSampler(policy, seed=0, max_rows=8), InlinePool(EnvironmentVerifier(Turns()))
    episodes = Episodes(
        sampler, pool, conversations, limits or EpisodeLimits(max_turns=9, max_tokens=100, max_row=policy.max_length)
    )
    requests = [
        SampleRequest(Task(str(number), "1 2 3"[: 2 * slot + 1], {"turns": number}), 0, slot, count)
        for slot, number in enumerate(turns)
    ]
    return policy, collect(episodes, episodes.verdicts, requests, Decoding(rule or CutRule(), max_new_tokens=12))


@pytest.mark.parametrize("forking", [False, True])
@pytest.mark.parametrize("rule", [CutRule(), CutRule(0.8, 0, 0.98)], ids=str)
def test_the_learner_reproduces_the_samplers_log_probs_in_every_turn(forking: bool, rule: CutRule) -> None:
    policy, groups = play(1, 2, 5, 5, forking=forking, rule=rule, count=6)
    rows = [row for group in groups for sample in group.samples for row in sample.rows if len(row.decisions)]
    assert forking == (len(rows) > 24)
    for row in rows:
        with torch.no_grad():
            logp_N = policy.evaluate(policy.collate([row])).logp_N.numpy()
        np.testing.assert_allclose(logp_N, row.decisions.logp_N, atol=1e-5)


def test_turns_cover_the_tokens_and_the_text() -> None:
    policy, groups = play(3)
    for sample in groups[0].samples:
        assert "".join(turn.text for turn in sample.turns) == sample.text
        assert sample.turns[-1].end == len(sample.token_ids)
        for turn in sample.turns:
            ids = sample.token_ids[turn.start : turn.end].tolist()
            expected = policy.decode(ids) if turn.role == "assistant" else policy.tokenizer.decode(ids)
            assert expected == turn.text
        written = [turn for turn in sample.turns if turn.role == "assistant"]
        inside = [any(t.start <= p < t.end for t in written) for p in sample.decisions.position_N.tolist()]
        assert all(inside), "only the policy's tokens are decisions"


@pytest.mark.parametrize(
    ("limits", "finish"),
    [(EpisodeLimits(2, 100), {"turns", "length"}), (EpisodeLimits(9, 4), {"episode_length", "length", "stop"})],
)
def test_every_limit_has_its_finish_reason(limits: EpisodeLimits, finish: set[str]) -> None:
    _, groups = play(6, limits=limits, count=6)
    reasons = {sample.finish for sample in groups[0].samples}
    assert reasons <= finish
    assert reasons & (finish - {"stop", "length"})


def test_rewards_of_turns_add_up_and_are_credited_from_their_turn_on() -> None:
    _, groups = play(3, 3)
    for group in groups:
        for sample, verdict in zip(group.samples, group.verdicts, strict=True):
            if sample.finish == "stop":
                assert verdict.turn_rewards[:2] == (1.0, 2.0)
                assert verdict.reward == sum(verdict.turn_rewards)

    def raw(reward_M: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return reward_M

    for item in Credit(raw, min_scored=1).assign(groups):
        verdict = next(
            v for g in groups for s, v in zip(g.samples, g.verdicts, strict=True) if s.key == item.sample.key
        )
        if verdict.turn_rewards:
            to_go = [sum(verdict.turn_rewards[place:]) for place in range(len(verdict.turn_rewards))]
            assert sorted(set(item.advantage_N.tolist()), reverse=True) == sorted(set(to_go), reverse=True)
    for item in Credit(raw, min_scored=1, per="episode").assign(groups):
        assert len(set(item.advantage_N.tolist())) == 1


def test_rows_of_an_episode_count_as_one_sample() -> None:
    _, groups = play(5, forking=True)
    credited = Credit(min_scored=1).assign(groups)
    items = [LearnerSample(item.sample, item.advantage_N, number=item.number) for item in credited]
    assert len(items) > 3
    assert sample_labels(items).max() == 2
    parts = list(minibatches(items, 3, 1, (0, 0)))
    assert len(parts) == 3
    assert [len({item.number for item in part}) for part in parts] == [1, 1, 1]


def test_the_same_episodes_are_played_with_fewer_rows_at_a_time() -> None:
    """The result must not depend on which rows share a batch."""
    _, together = play(2, 4)
    _, again = play(2, 4)
    for one, other in zip(together, again, strict=True):
        assert [sample.text for sample in one.samples] == [sample.text for sample in other.samples]
