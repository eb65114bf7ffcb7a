"""Replies that a model cannot read end their episode, not the run; the order of replies does not change the tokens."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from steelyard.environments import Environment, EnvironmentVerifier
from steelyard.errors import VerifierError
from steelyard.policies.tokens.conversation import Conversations
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.sampling.local import LocalSampler
from steelyard.training.episodes import EpisodeLimits, Episodes
from steelyard.training.phases import collect
from steelyard.types import CutRule, Group, Reply, SampleKey, Task, Verdict
from steelyard.verification import Cause, CircuitBreaker, InlinePool, Item, Pipeline, Pool
from tests.tiny import tiny_policy
from tests.unit.episodes.test_episodes import Turns

RULE = CutRule(0.8, 0, 0.98)


class Says(Environment):
    """Replies with the task's text after the first turn, and ends the episode after the second."""

    isolate = False

    def start(self, task: Task) -> Any:
        return task.spec.get("start", task.prompt)

    def reply(self, task: Task, turns: Any) -> Any:
        return 1.0 if len(turns) > 1 else task.spec["says"]

    def cut_off(self, task: Task, turns: Any, limit: Any) -> Any:
        return Verdict.scored(0.5, parts={limit: 1.0})


def play(
    pool: Pool, tasks: Sequence[Task], *, starts: bool = False, fixed_order: bool = False, max_rows: int = 8
) -> list[Group]:
    policy = tiny_policy(words=[str(number) for number in range(7)], sharpness=2.0)
    limits = EpisodeLimits(max_turns=9, max_row=policy.max_length)
    sampler = LocalSampler(policy, seed=0, max_rows=max_rows)
    episodes = Episodes(sampler, pool, Conversations(policy.codec), limits, starts=starts, fixed_order=fixed_order)
    requests = [SampleRequest(task, 0, slot, 4) for slot, task in enumerate(tasks)]
    return collect(episodes, episodes.verdicts, requests, Decoding(RULE, max_new_tokens=12))


def says(reply: Any, **spec: Any) -> list[Verdict]:
    """Return the verdicts of the episodes whose first turn ended."""
    (group,) = play(InlinePool(EnvironmentVerifier(Says())), [Task("t", "1 2", {"says": reply, **spec})])
    return [v for s, v in zip(group.samples, group.verdicts, strict=True) if s.finish != "length"]


def test_a_reply_outside_the_vocabulary_leaves_the_episode_unscored() -> None:
    verdicts = says("3 higher 4 lower")
    assert verdicts
    assert {(verdict.status, verdict.cause) for verdict in verdicts} == {("unscored", Cause.BAD_RETURN)}
    assert "higher lower" in verdicts[0].reason
    assert "model.scratch.vocabulary" in verdicts[0].reason


def test_an_empty_reply_continues_the_episode_and_one_without_messages_is_a_failure() -> None:
    verdicts = says("")
    assert verdicts
    assert {verdict.status for verdict in verdicts} == {"scored"}
    assert {verdict.cause for verdict in says([])} == {Cause.BAD_RETURN}


def test_a_reply_too_long_for_the_model_ends_the_episode_at_its_limit() -> None:
    verdicts = says("1 " * 500)
    assert verdicts
    assert [verdict.parts for verdict in verdicts] == [{"episode_length": 1.0}] * len(verdicts)


@pytest.mark.parametrize(("start", "named"), [("1 unknown 2", "unknown"), ("1 " * 500, "500 tokens")])
def test_an_initial_observation_that_the_model_cannot_read_leaves_its_samples_unscored(start: str, named: str) -> None:
    tasks = [Task("bad", "1", {"says": "1", "start": start}), Task("good", "1", {"says": "1"})]
    bad, good = play(InlinePool(EnvironmentVerifier(Says())), tasks, starts=True)
    assert {(verdict.status, verdict.cause) for verdict in bad.verdicts} == {("unscored", Cause.BAD_RETURN)}
    assert named in bad.verdicts[0].reason
    assert any(verdict.status == "scored" for verdict in good.verdicts)


def test_unreadable_replies_count_for_the_circuit_breaker() -> None:
    tasks = [Task("t", "1 2", {"says": "unknown"})] * 4
    with pytest.raises(VerifierError, match="closed vocabulary"):
        play(Pipeline([CircuitBreaker(window=64)], InlinePool(EnvironmentVerifier(Says()))), tasks)


class Delayed(InlinePool):
    """Delivers answers late and in random order, as workers do."""

    def __init__(self, seed: int) -> None:
        super().__init__(EnvironmentVerifier(Turns()))
        self.chance = random.Random(seed)
        self.held: list[tuple[SampleKey, Verdict]] = []

    def submit(self, items: Sequence[Item]) -> None:
        super().submit(items)
        self.held += super().completed(wait=False)

    def completed(self, *, wait: bool | float) -> Iterator[tuple[SampleKey, Verdict]]:
        while self.held and (wait or self.chance.random() < 0.3):
            yield self.held.pop(self.chance.randrange(len(self.held)))


def test_in_fixed_order_the_time_of_replies_changes_no_bit() -> None:
    tasks = [Task(str(turns), "1 2 3"[: 2 * slot + 1], {"turns": turns}) for slot, turns in enumerate((3, 5))]
    runs = [play(Delayed(seed), tasks, fixed_order=True, max_rows=6) for seed in range(2)]
    bits = [
        [(sample.token_ids.tobytes(), sample.decisions.logp_N.tobytes()) for group in run for sample in group.samples]
        for run in runs
    ]
    assert bits[0] == bits[1]
    rewards = [[verdict.reward for group in run for verdict in group.verdicts] for run in runs]
    assert rewards[0] == rewards[1]


def test_a_verdict_that_wraps_a_reply_continues_and_cut_off_must_end_the_episode() -> None:
    class Wraps(Says):
        def reply(self, task: Task, turns: Any) -> Any:
            return True if len(turns) > 1 else Verdict.continues(Reply.text("1"))

        def cut_off(self, task: Task, turns: Any, limit: Any) -> Any:
            return Verdict.continues(Reply.text("1"))

    (group,) = play(InlinePool(EnvironmentVerifier(Wraps())), [Task("t", "1 2")])
    causes = {verdict.cause for verdict in group.verdicts}
    assert causes <= {"", Cause.BAD_RETURN}
    assert any(verdict.success for verdict in group.verdicts)
