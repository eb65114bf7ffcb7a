"""Classes for TRL's environment_factory: reset, tools, rewards, and replay after lost workers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from steelyard.environments.adapters import TRLEnvironment
from steelyard.errors import ConfigError
from steelyard.types import Task, Verdict
from tests.adapter_episodes import play_inline, play_with_kills


class Guess:
    """An environment as TRL documents it."""

    def __init__(self) -> None:
        self.tries = 0

    def reset(self, **columns: Any) -> str:
        self.columns = columns
        self.secret = random.randint(1, columns["highest"])
        return f" The number is at most {columns['highest']}."

    def guess(self, number: int) -> str:
        """Guess the number.

        Args:
            number: The guess.

        """
        self.tries += 1
        if number < 1:
            raise ValueError("numbers start at 1")
        return "right" if number == self.secret else f"wrong, try near {random.randint(1, 9)}"

    async def give_up(self) -> str:
        """Show the number."""
        return str(self.secret)

    def get_reward(self) -> float:
        return 1.0 / self.tries if self.tries else 0.0

    def _hidden(self) -> None: ...


class Bare:
    def reset(self) -> None:
        self.done = False

    def finish(self) -> str:
        """Finish."""
        self.done = True
        return "ok"


def tool(name: str, arguments: str = "{}") -> str:
    return f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>'


def three_guesses(task: Task, turns: list[str]) -> str:
    written = len(turns) // 2
    return tool("guess", f'{{"number": {written + 1}}}') if written < 3 else "I am done."


ROW = Task("row", "Find the number.", {"highest": 50})


@pytest.mark.slow
def test_an_environment_is_played_and_replayed_after_lost_workers() -> None:
    ((prompt, *replies, verdict),) = play_with_kills(TRLEnvironment(Guess), [ROW], three_guesses)
    assert prompt.endswith("Find the number. The number is at most 50.")
    assert [reply.messages[0]["role"] for reply in replies] == ["tool"] * 3
    assert verdict.reward == pytest.approx(1 / 3)
    assert verdict.parts == {"Guess": verdict.reward}


def test_the_prompt_lists_the_public_methods_with_their_schemas() -> None:
    messages = Task("row", ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go."}), ROW.spec)
    prompt = TRLEnvironment(Guess).start(messages).messages
    assert prompt[1] == {"role": "user", "content": "Go. The number is at most 50."}
    system = prompt[0]["content"]
    assert system.startswith("Be brief.")
    assert '"name": "guess"' in system
    assert '"number": {"type": "integer"}' in system
    assert '"name": "give_up"' in system
    assert not any(name in system for name in ("reset", "get_reward", "_hidden"))


def test_reset_gets_the_whole_row_with_its_own_prompt() -> None:
    environment = TRLEnvironment(Guess)
    spec = {**ROW.spec, **environment.start(ROW).spec}
    instance, _ = environment.begin(Task("row", "the prompt with tools", spec))
    assert instance.columns == {"prompt": "Find the number.", "highest": 50}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (tool("guess", '{"number": 0}'), "{'error': 'numbers start at 1'}"),
        (tool("fly"), "{'error': 'Tool fly not found.'}"),
        ("<tool_call>{</tool_call>", "error: the call is not valid JSON"),
        ("<tool_call>{}", "error: the call does not end"),
        (tool("guess", "[1]"), 'error: "arguments" must be an object'),
    ],
)
def test_errors_are_results_that_the_policy_reads(text: str, result: str) -> None:
    _, reply, _ = play_inline(TRLEnvironment(Guess), ROW, lambda *_: text, max_turns=1)
    assert reply.messages[0]["content"].startswith(result)


def test_asynchronous_tools_and_several_calls_in_one_turn() -> None:
    _, reply, verdict = play_inline(TRLEnvironment(Guess), ROW, lambda *_: tool("give_up") * 2, max_turns=1)
    assert len(reply.messages) == 2
    assert reply.messages[0]["content"].isdigit()
    assert verdict == Verdict.scored(0.0, parts={"Guess": 0.0}), "an episode at a limit is scored, as in TRL"


def was_done(environments: list[Any], completions: list[Any], **columns: Any) -> list[float]:
    assert completions[0][0]["tool_calls"][0]["function"]["name"] == "finish"
    return [2.0 * environment.done for environment in environments]


def test_reward_functions_get_the_environment_and_tasks_may_be_seeds() -> None:
    environment = TRLEnvironment(Bare, reward_funcs=was_done, instructions="Finish.")
    (task,) = environment.tasks(1)
    *_, verdict = play_inline(environment, task, lambda _, turns: "" if turns else tool("finish"))
    assert verdict == Verdict.scored(2.0, success=True, parts={"was_done": 2.0})


def test_a_class_without_reward_or_reset_is_rejected() -> None:
    with pytest.raises(ConfigError, match="get_reward"):
        TRLEnvironment(Bare)
    with pytest.raises(ConfigError, match="reset"):
        TRLEnvironment(dict)
