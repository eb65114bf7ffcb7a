"""Parsing tool calls from model output, in the formats that models use."""

from __future__ import annotations

import pytest

from steelyard.tools.calls import Call, InvalidCall, read_calls


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>',
        'Let me see.\n<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>\n',
        '<tool_call>[{"name": "f", "arguments": {"x": 1}}]</tool_call>',
        '<tool_call>{"name": "f", "arguments": "{\\"x\\": 1}"}</tool_call>',
        '{"name": "f", "parameters": {"x": 1}}',
    ],
)
def test_forms_of_a_call(text: str) -> None:
    assert read_calls(text) == [Call("f", {"x": 1})]


@pytest.mark.parametrize("text", ["", "42", '{"answer": 1}', '{"name": "f"}', "{", "[1]", "call f(1)", "</tool_call>"])
def test_a_turn_without_a_call_is_a_final_answer(text: str) -> None:
    assert read_calls(text) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<tool_call>{bad}</tool_call>", "not valid JSON"),
        ('<tool_call>{"name": "f"', "does not end with </tool_call>"),
        ("<tool_call>3</tool_call>", '"name"'),
        ('<tool_call>{"name": 3, "arguments": {}}</tool_call>', '"name"'),
        ('<tool_call>{"name": "f", "arguments": [1]}</tool_call>', '"arguments" must be an object'),
        (f"<tool_call>{'[' * 100_000}</tool_call>", "not valid JSON"),
    ],
)
def test_an_unreadable_call_says_what_is_wrong(text: str, reason: str) -> None:
    (found,) = read_calls(text)
    assert isinstance(found, InvalidCall)
    assert reason in found.reason


def test_several_calls_keep_their_order() -> None:
    text = '<tool_call>{"name": "a", "arguments": {}}</tool_call> and <tool_call>x</tool_call>'
    first, second = read_calls(text)
    assert first == Call("a", {})
    assert isinstance(second, InvalidCall)
