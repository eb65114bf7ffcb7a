"""Environments in verification pools: replies, verdicts, limits, and sessions that are replayed after a lost worker."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from steelyard.environments import Environment, EnvironmentVerifier, Session, SessionEnvironment
from steelyard.types import NO_DECISIONS, Reply, Sample, SampleKey, Task, Turn, Verdict
from steelyard.verification import Cause, InlinePool, Item
from steelyard.verification.safe_verify import safe_verify

KEY = SampleKey(0, 0, 0, 0)
TASK = Task("t", "guess", {"hidden": 7})


def episode(*texts: str, finish: Any = "stop", key: SampleKey = KEY) -> Item:
    """Build an episode of alternating turns; the policy writes the first one."""
    roles = ["assistant", "user"] * len(texts)
    turns = tuple(Turn(role, text, 0, 0) for role, text in zip(roles, texts, strict=False))
    sample = Sample(key, np.zeros(0, np.int32), 0, "".join(texts), finish, NO_DECISIONS, turns=turns)
    return Item(TASK, sample, 1)


class Guess(Environment):
    def reply(self, task: Task, turns: Any) -> Any:
        number, hidden = int(turns[-1]["content"]), task.spec["hidden"]
        return True if number == hidden else Reply.text("higher" if number < hidden else "lower", reward=-0.1)


class Counter(Session):
    def __init__(self, start: int) -> None:
        self.total, self.closed = start, False

    def reply(self, text: str) -> Any:
        self.total += int(text)
        return float(self.total) if self.total > 10 else str(self.total)

    def cut_off(self, text: str, limit: Any) -> Any:
        return Verdict.scored(self.total + len(text), parts={limit: 1.0})

    def close(self) -> None:
        self.closed = True


class Counting(SessionEnvironment):
    def __init__(self, start: int = 0) -> None:
        self.opened: list[Counter] = []
        self.start_at = start

    def open(self, task: Task, seed: int) -> Session:
        self.opened.append(Counter(self.start_at))
        return self.opened[-1]


def answer(environment: Environment, item: Item) -> Verdict:
    return safe_verify(EnvironmentVerifier(environment), [item])[0]


def test_a_reply_continues_the_episode_and_a_bool_ends_it() -> None:
    continued = answer(Guess(), episode("3"))
    assert continued.status == "continues"
    assert continued.reply == Reply(({"role": "user", "content": "higher"},), -0.1)
    assert answer(Guess(), episode("3", "higher", "7")) == Verdict.scored(1.0, success=True)


def test_a_failing_environment_leaves_the_episode_unscored() -> None:
    assert answer(Guess(), episode("seven")).cause == Cause.EXCEPTION


def test_the_start_is_asked_with_an_empty_episode() -> None:
    item = Item(TASK, Sample(KEY, np.zeros(0, np.int32), 0, "", "stop", NO_DECISIONS), 1)
    assert answer(Guess(), item).reply == Reply.text("guess")


def test_an_episode_at_a_limit_is_rejected_unless_the_environment_scores_it() -> None:
    rejected = answer(Guess(), episode("3", finish="length"))
    assert (rejected.status, rejected.open_floor) == ("rejected", True)
    assert "max_new_tokens" in rejected.reason
    assert answer(Counting(), episode("3", "3", "44", finish="turns")).parts == {"turns": 1.0}


@pytest.mark.parametrize(
    "reply",
    [
        Reply(({"role": "assistant", "content": "x"},)),
        Reply(({"role": "user"},)),  # type: ignore[arg-type]
        Reply.text("x", reward=float("nan")),
        Reply.text("x" * 1_000_001),
    ],
)
def test_bad_replies_are_failures_of_the_environment(reply: Reply) -> None:
    class Bad(Environment):
        def reply(self, task: Task, turns: Any) -> Any:
            return reply

    assert answer(Bad(), episode("a")).cause == Cause.BAD_RETURN


def test_a_session_keeps_its_state_between_turns() -> None:
    environment = Counting()
    verifier = EnvironmentVerifier(environment)
    assert verifier.verify([episode("4")])[0].reply == Reply.text("4")
    assert verifier.verify([episode("4", "4", "5")])[0].reply == Reply.text("9")
    assert verifier.verify([episode("4", "4", "5", "9", "2")])[0].reward == 11.0
    assert len(environment.opened) == 1
    assert environment.opened[0].closed


def test_a_lost_session_is_replayed_and_its_replies_compared() -> None:
    verifier = EnvironmentVerifier(Counting())
    verifier.verify([episode("4")])
    elsewhere = pickle.loads(pickle.dumps(verifier))
    assert not elsewhere._sessions
    assert elsewhere.verify([episode("4", "4", "5")])[0].reply == Reply.text("9")
    different = EnvironmentVerifier(Counting(start=1))
    assert different.verify([episode("4", "4", "5")])[0].cause == Cause.NOT_REPRODUCIBLE


def test_the_number_of_open_sessions_is_bounded() -> None:
    environment = Counting()
    verifier = EnvironmentVerifier(environment, max_sessions=2)
    for number in range(3):
        verifier.verify([episode("1", key=SampleKey(0, 0, 0, number))])
    assert [session.closed for session in environment.opened] == [True, False, False]
    assert verifier.verify([episode("1", "1", "2")])[0].reply == Reply.text("3"), "the closed session was replayed"


def test_replies_pass_through_a_pool_and_json() -> None:
    pool = InlinePool(EnvironmentVerifier(Guess()))
    pool.submit([episode("9")])
    ((key, verdict),) = pool.completed(wait=True)
    assert (key, verdict.status) == (KEY, "continues")
    assert Verdict.from_json(verdict.to_json()) == verdict
