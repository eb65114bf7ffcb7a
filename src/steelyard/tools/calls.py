"""Parses tool calls in the policy's text.

A call is ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``, as many models write it (Hermes, Qwen). A turn
may contain several calls. A turn that consists only of the JSON object is also a call (Llama); its key for the
arguments may be ``parameters``.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, cast

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_MARKED = re.compile(f"{OPEN}(.*?)(?:{CLOSE}|$)", re.DOTALL)
_KEYS = ("arguments", "parameters")


class Call(NamedTuple):
    """A well-formed call; the tool may still not exist or reject the arguments."""

    name: str
    arguments: dict[str, Any]


class InvalidCall(NamedTuple):
    """A call that cannot be parsed."""

    reason: str


def read_calls(text: str) -> list[Call | InvalidCall]:
    """Return the calls of a turn in order; an empty list means that the turn is a final answer."""
    marked = list(_MARKED.finditer(text))
    if not marked:
        return _bare_call(text)
    calls: list[Call | InvalidCall] = []
    for match in marked:
        if not match[0].endswith(CLOSE):
            calls.append(InvalidCall(f"the call does not end with {CLOSE}"))
            continue
        try:
            content = json.loads(match[1])
        except (ValueError, RecursionError) as error:
            calls.append(InvalidCall(f"the call is not valid JSON: {error}"))
            continue
        calls += map(_call, cast("list[object]", content) if isinstance(content, list) else [content])
    return calls


def _bare_call(text: str) -> list[Call | InvalidCall]:
    if not text.strip().startswith("{"):
        return []
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [_call(content)] if set(content) in [{"name", key} for key in _KEYS] else []


def _call(content: object) -> Call | InvalidCall:
    if not isinstance(content, dict) or not isinstance(content.get("name"), str):
        return InvalidCall('a call is an object with "name" and "arguments"')
    table = cast("dict[str, Any]", content)
    arguments: Any = next((table[key] for key in _KEYS if key in table), {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = None
    if not isinstance(arguments, dict):
        return InvalidCall('"arguments" must be an object with one entry per parameter')
    return Call(table["name"], cast("dict[str, Any]", arguments))
