"""Episodes with tools: calls are answered, mistakes come back as text, and the final answer is verified."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from steelyard.environments import EnvironmentVerifier
from steelyard.errors import ConfigError, Invalid
from steelyard.tools import Python, Tool, ToolEnvironment, calculator, tool_environment
from steelyard.types import NO_DECISIONS, Reply, Sample, SampleKey, Task, Turn, Verdict
from steelyard.verification import Blame, Item, ProcessPool, as_verifier, verifier

TASK = Task("t", "What is 6 * 7?", {"answer": "42"})
CALL = '<tool_call>{"name": "calculator", "arguments": {"expression": "6 * 7"}}</tool_call>'


def right(task: Task, text: str) -> bool:
    return text == task.spec["answer"]


def misbehave(how: str) -> str:
    """Fail in the given way, as a broken tool would."""
    if how == "exit":
        os._exit(3)
    if how == "memory":
        raise MemoryError
    if how == "invalid":
        raise Invalid("the model must not do this")
    raise RuntimeError(f"cannot {how}")


def assistant(*texts: str) -> tuple[Any, ...]:
    return tuple({"role": "assistant", "content": text} for text in texts)


def environment(*tools: Any, scored_by: Any = right) -> Any:
    return tool_environment([Tool(tool) for tool in tools or (calculator,)], as_verifier(scored_by))


def reply_to(text: str, *tools: Any) -> list[str]:
    answer = environment(*tools).reply(TASK, assistant(text))
    assert isinstance(answer, Reply)
    assert {message["role"] for message in answer.messages} == {"tool"}
    return [message["content"] for message in answer.messages]


def test_a_call_is_answered_with_its_result() -> None:
    assert reply_to(CALL) == ["42"]
    assert reply_to(CALL + CALL.replace("6 * 7", "1 + 1")) == ["42", "2"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("<tool_call>{</tool_call>", "not valid JSON"),
        (CALL.replace("calculator", "computer"), "no tool 'computer'; the tools are: calculator, misbehave"),
        (CALL.replace("expression", "formula"), "wrong arguments for calculator: expression"),
        (CALL.replace("6 * 7", "1 / 0"), "ZeroDivisionError: division by zero"),
        ('<tool_call>{"name": "misbehave", "arguments": {"how": "fly"}}</tool_call>', "RuntimeError: cannot fly"),
    ],
)
def test_mistakes_come_back_as_text(text: str, part: str) -> None:
    (found,) = reply_to(text, calculator, misbehave)
    assert found.startswith("error: ")
    assert part in found


def test_the_verifier_scores_the_last_turn_and_sees_all_of_them() -> None:
    seen: list[Any] = []

    def watching(task: Task, text: str) -> Verdict:
        seen.append((text, task.spec["turns"], task.spec["answer"]))
        return Verdict.scored(1.0, success=True, steps=[(1, 0.25), (2, 0.75)])

    turns = (*assistant(CALL), {"role": "tool", "content": "42"}, *assistant("42"))
    verdict = environment(scored_by=watching).reply(TASK, turns)
    assert seen == [("42", [dict(turn) for turn in turns], "42")]
    before = len(CALL) + 2
    assert verdict.steps == ((before + 1, 0.25), (before + 2, 0.75)), "offsets count from the start of the episode"
    weighted = environment(scored_by={"right": (right, 2.0), "short": lambda _task, text: len(text) < 3})
    assert weighted.reply(TASK, turns).reward == 3.0


def test_a_verifier_that_compares_samples_is_rejected() -> None:
    @verifier(mode="group")
    def best(task: Task, texts: Sequence[str]) -> list[float]:
        return [0.0 for _ in texts]

    with pytest.raises(ConfigError, match="best compares the samples of a group"):
        environment(scored_by=best)
    with pytest.raises(ConfigError, match="same name"):
        ToolEnvironment([Tool(calculator), Tool(calculator)], as_verifier(right))


def item(*texts: str, sample: int = 0) -> Item:
    """An episode in which a tool answered every text except the last."""
    turns: list[Turn] = []
    for number, text in enumerate(texts):
        turns.append(Turn("tool" if number % 2 else "assistant", text, 0, 0))
    key = SampleKey(0, 0, 0, sample)
    whole = Sample(key, np.zeros(0, np.int32), 0, "".join(texts), "stop", NO_DECISIONS, turns=tuple(turns))
    return Item(TASK, whole, 1)


def broken(how: str) -> str:
    return f'<tool_call>{{"name": "misbehave", "arguments": {{"how": "{how}"}}}}</tool_call>'


def test_a_tool_that_crashes_is_a_failure_with_its_cause() -> None:
    run = EnvironmentVerifier(environment(calculator, misbehave))
    texts = ["exit", "memory", "invalid"]
    with closing(ProcessPool(run, workers=1, blame=Blame(tries=1))) as pool:
        pool.submit([item(broken(how), sample=number) for number, how in enumerate(texts)])
        pool.submit([item(CALL, sample=3), item(CALL, "42", "42", sample=4)])
        found = {key.sample: verdict for key, verdict in pool.completed(wait=True)}
    assert [(found[number].status, found[number].cause) for number in range(3)] == [
        ("unscored", "exited"),
        ("unscored", "out of memory"),
        ("rejected", ""),
    ]
    assert found[3].reply == Reply(({"role": "tool", "content": "42"},))
    assert (found[4].status, found[4].reward, found[4].success) == ("scored", 1.0, True)


def code(text: str) -> str:
    return f'<tool_call>{{"name": "python", "arguments": {{"code": "{text}"}}}}</tool_call>'


def test_a_tool_with_state_keeps_it_between_turns_of_one_episode() -> None:
    run = EnvironmentVerifier(environment(Python, calculator))
    assert run.environment.keeps_processes
    (first,) = run.verify([item(code("x = 6"))])
    assert first.reply is not None
    replied = first.reply.messages[0]["content"]
    (other,) = run.verify([item(code("x"), sample=1)])
    assert other.reply is not None
    assert "NameError" in other.reply.messages[0]["content"], "episodes do not share names"
    (second,) = run.verify([item(code("x = 6"), replied, code("x * 7"))])
    assert second.reply is not None
    assert second.reply.messages[0]["content"] == "42\n"
    fresh = EnvironmentVerifier(environment(Python, calculator))
    (again,) = fresh.verify([item(code("x = 6"), replied, code("x * 7"), "42\n", "42")])
    assert (again.status, again.reward) == ("scored", 1.0), "the turns are replayed in a new worker"
    for session in run._sessions.values():
        session.session.close()
