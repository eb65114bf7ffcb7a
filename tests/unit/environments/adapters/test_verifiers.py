"""Environments of ``verifiers``: turns, tools, rewards and limits, and replay after lost workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.environments.adapters import VerifiersEnvironment
from steelyard.types import Task, Verdict
from steelyard.verification import Cause
from tests.adapter_episodes import play_inline, play_with_kills

pytest.importorskip("verifiers.v1", reason="needs the extra verifiers; .ci/run all tests it")

Adapt = Callable[..., VerifiersEnvironment]
TASKSETS = str(Path(__file__).parent / "tasksets")


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TASKSETS)
    monkeypatch.setenv("PYTHONPATH", TASKSETS)


@pytest.fixture
def adapt() -> Iterator[Adapt]:
    """Build environments that are closed at the end."""
    built: list[VerifiersEnvironment] = []

    def build(taskset: str, **options: Any) -> VerifiersEnvironment:
        built.append(VerifiersEnvironment(taskset, **options))
        return built[-1]

    yield build
    for environment in built:
        environment.close()


def bisect(task: Task, turns: list[str]) -> str:
    low, high = 0, 31
    for guess, hint in zip(turns[::2], turns[1::2], strict=True):
        low, high = (int(guess) + 1, high) if "higher" in hint else (low, int(guess) - 1)
    return str((low + high) // 2)


@pytest.mark.slow
def test_a_game_is_played_and_replayed_after_lost_workers(adapt: Adapt) -> None:
    hunt = adapt("steelyard-hunt")
    ((prompt, *replies, verdict),) = play_with_kills(hunt, hunt.tasks(1, first=1), bisect)
    assert prompt == "Find the number from 0 to 31."
    assert [reply.messages[0]["content"].split()[0] for reply in replies] == ["lower"]
    assert verdict == Verdict.scored(-2.0, parts={"turns": -2.0})


@pytest.mark.parametrize(("text", "reward", "success"), [("It is 4", 2.0, True), ("five", 0.0, False)])
def test_rewards_and_metrics_of_the_task_are_the_verdict(text: str, reward: float, success: bool, adapt: Adapt) -> None:
    sums = adapt("steelyard-sums")
    prompt, verdict = play_inline(sums, sums.tasks(1, first=2)[0], lambda *_: text)
    assert prompt == ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2 + 2?"})
    words = float(len(text.split()))
    assert verdict == Verdict.scored(reward, success=success, parts={"right": reward, "words": words})


def test_a_failure_of_the_environment_is_unscored(adapt: Adapt) -> None:
    sums = adapt("steelyard-sums")
    _, verdict = play_inline(sums, sums.tasks(1)[0], lambda *_: "crash")
    assert verdict.cause == Cause.EXCEPTION
    assert "no words" in verdict.reason


def test_an_episode_at_a_limit_is_scored_as_it_is(adapt: Adapt) -> None:
    hunt = adapt("steelyard-hunt")
    (task,) = hunt.tasks(1, first=3)
    *_, verdict = play_inline(hunt, task, lambda *_: "0", max_turns=2)
    assert verdict == Verdict.scored(-2.0, parts={"turns": -2.0})
    limited = adapt("steelyard-hunt", player={"max_turns": 3})
    _, *replies, verdict = play_inline(limited, task, lambda *_: "0")
    assert (len(replies), verdict.reward) == (2, -3.0)


def test_the_policy_plays_one_seat(adapt: Adapt) -> None:
    hunt = adapt("steelyard-hunt", ask_helper=True)
    _, verdict = play_inline(hunt, hunt.tasks(1)[0], lambda *_: "5")
    assert verdict.cause == Cause.EXCEPTION
    assert "two seats" in verdict.reason


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The 'initial' parameter:DeprecationWarning")  # in verifiers
def test_tools_are_listed_called_and_answered(adapt: Adapt) -> None:
    shop = adapt("steelyard-shop")

    def script(task: Task, turns: list[str]) -> str:
        calls = [
            "<tool_call>{</tool_call>",
            '<tool_call>{"name": "prices_price", "arguments": {"item": "apple"}}</tool_call>',
        ]
        return [*calls, "It costs 5."][len(turns) // 2]

    prompt, invalid, priced, verdict = play_inline(shop, shop.tasks(1)[0], script)
    assert '"name": "prices_price"' in prompt[0]["content"]
    assert "not valid JSON" in invalid.messages[0]["content"]
    assert priced.messages == ({"role": "tool", "content": "apple costs 5"},)
    assert verdict.reward == 1.0
