"""A turn is a call that matches a tool's schema, or a final answer; all tokens that fit neither are masked."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

pytest.importorskip("llguidance")

from steelyard.constraints.grammar import PerTask, ToolCallConstraint, ToolCallGrammar
from steelyard.errors import ConstraintError
from steelyard.tools import Tool, calculator
from steelyard.types import Task

END = 256
BYTES = [*(bytes([byte]) for byte in range(256)), None]
CALL = '<tool_call>{"name": "calculator", "arguments": {"expression": "6*7"}}</tool_call>'


def constraint(final: Any, *, before: str = "<tool_call>", after: str = "</tool_call>") -> ToolCallConstraint:
    properties = {"name": {"const": "calculator"}, "arguments": Tool(calculator).parameters}
    call = {
        "type": "object",
        "properties": properties,
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }
    grammar = ToolCallGrammar([call], before, after, final)
    source = grammar if callable(final) else grammar(Task("any", ""))
    return ToolCallConstraint(source, BYTES, end_id=END, vocabulary=257, max_tokens=120)


def accepts(limits: ToolCallConstraint, text: str, task: Task = Task("t", "")) -> bool:  # noqa: B008 - frozen
    walk = limits.begin(task)
    try:
        for byte in text.encode():
            walk.advance(byte)
    except ConstraintError:
        return False
    return walk.may_end()


def test_a_call_or_a_number() -> None:
    limits = constraint("-?[0-9]{1,3}")
    for text in (CALL, "42", "-7"):
        assert accepts(limits, text), text
    wrong = [CALL.replace("calculator", "computer"), CALL.replace("6*7", "six"), CALL.replace(": ", ":"), CALL + "4"]
    for text in (*wrong, CALL[:-1], "", "4 2", "1234", "<tool_call>"):
        assert not accepts(limits, text), text


def test_a_call_or_any_text_without_one() -> None:
    limits = constraint(None)
    for text in (CALL, "It is 42.", "a < b", "<tool", "two\nlines"):
        assert accepts(limits, text), text
    for text in ("", "see <tool_call>", "<tool_call>x</tool_call>", f"{CALL} it is"):
        assert not accepts(limits, text), text
    limits.check_budget(Task("t", ""), 2)


def test_calls_without_markers() -> None:
    limits = constraint(None, before="", after="")
    bare = CALL.removeprefix("<tool_call>").removesuffix("</tool_call>")
    assert accepts(limits, bare)
    assert accepts(limits, "It is 42.")
    assert not accepts(limits, "{not a call}")


def test_the_answer_may_differ_between_tasks() -> None:
    limits = constraint(PerTask("form"))
    yes, number = Task("a", "", {"form": "yes|no"}), Task("b", "", {"form": "[0-9]+"})
    assert [accepts(limits, text, yes) for text in ("yes", "4", CALL)] == [True, False, True]
    assert [accepts(limits, text, number) for text in ("yes", "4", CALL)] == [False, True, True]
    with pytest.raises(ConstraintError, match="task c: the final answer"):
        limits.begin(Task("c", "", {"form": 3}))


def test_the_text_of_a_call_is_forced_up_to_its_arguments() -> None:
    walk = constraint("[0-9]+").begin(Task("t", ""))
    assert not walk.forced(100), "a call or a number: the policy decides"
    walk.advance(ord("<"))
    forced = bytes(walk.forced(100)).decode()
    assert forced == CALL[1 : CALL.index("6*7")]


def test_a_copy_in_another_process_follows_the_same_grammar() -> None:
    sent = pickle.loads(pickle.dumps(constraint("[0-9]+")))
    assert accepts(sent, CALL)
    assert not accepts(sent, "a")
    with pytest.raises(ConstraintError, match="takes 2 tokens"):
        sent.check_budget(Task("t", ""), 1)
