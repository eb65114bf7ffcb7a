"""Environments that receive the same turns twice: answers that differ are reported, turn by turn."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from steelyard.commands.inputs.recording_pool import RecordingPool
from steelyard.environments import Environment, EnvironmentVerifier, Session, SessionEnvironment
from steelyard.types import NO_DECISIONS, Sample, SampleKey, Task, Turn
from steelyard.verification import InlinePool, Item


def episode(sample: int, *texts: str) -> Item:
    turns = tuple(Turn(role, text, 0, 0) for role, text in zip(["assistant", "user"] * 9, texts, strict=False))
    key = SampleKey(0, 0, 0, sample)
    return Item(Task("t", "p"), Sample(key, np.zeros(0, np.int32), 0, "", "stop", NO_DECISIONS, turns=turns), 2)


class Rolls(Session):
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def reply(self, text: str) -> Any:
        return f"{self.rng.random()}" if text == "roll" else 1.0


class Dice(SessionEnvironment):
    def open(self, task: Task, seed: int) -> Session:
        return Rolls(random.Random(seed))


class Unseeded(Dice):
    def open(self, task: Task, seed: int) -> Session:
        return Rolls(random.Random())


class Forgetful(Environment):
    """Scores the first episode differently each time."""

    def __init__(self) -> None:
        self.calls = 0

    def reply(self, task: Task, turns: Any) -> Any:
        self.calls += 1
        return float(self.calls) if turns[-1]["content"] == "a" else 0.0


@pytest.mark.parametrize(("environment", "same"), [(Dice(), 1.0), (Unseeded(), 0.5)])
def test_sessions_are_played_again_from_their_start(environment: Environment, same: float) -> None:
    pool = RecordingPool(InlinePool(EnvironmentVerifier(environment)))
    pool.submit([episode(0, "roll"), episode(1, "stop")])
    replies = dict(pool.completed(wait=True))
    reply = replies[SampleKey(0, 0, 0, 0)].reply
    assert reply is not None
    pool.submit([episode(0, "roll", reply.messages[0]["content"], "stop")])
    assert len(list(pool.completed(wait=True))) == 1
    again = pool.ask_again()
    assert (again.answers, again.same, pool.rounds) == (3, same, 2)
    assert again.seconds > 0


def test_a_different_verdict_counts_as_a_different_answer() -> None:
    pool = RecordingPool(InlinePool(EnvironmentVerifier(Forgetful())))
    pool.submit([episode(0, "a"), episode(1, "b")])
    assert len(list(pool.completed(wait=True))) == 2
    assert pool.ask_again().same == 0.5
