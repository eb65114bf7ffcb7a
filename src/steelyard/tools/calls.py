"""Tools in text: the list of tools in a prompt, and the calls within what the policy wrote.

A call is ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``, as many models write it (Hermes, Qwen). A turn
may contain several calls. A turn that consists only of the JSON object is also a call (Llama); its key for the
arguments may be ``parameters``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from steelyard.types import Message

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_MARKED = re.compile(f"{OPEN}(.*?)(?:{CLOSE}|$)", re.DOTALL)
_KEYS = ("arguments", "parameters")
LISTING = """You can call these tools:
{tools}
To call a tool, write only {open}{{"name": "NAME", "arguments": {{...}}}}{close}. You then get its result."""


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


def listing(schemas: Sequence[Mapping[str, Any]], before: str = OPEN, after: str = CLOSE) -> str:
    """Return the instructions for a model whose chat template does not list tools."""
    tools = "\n".join(json.dumps(_brief(schema.get("function", schema)), ensure_ascii=False) for schema in schemas)
    return LISTING.format(tools=tools, open=before, close=after)


def with_system(messages: Sequence[Message], text: str) -> tuple[Message, ...]:
    """Append a text to the system message, which is added if there is none."""
    first = messages[0]
    if first["role"] != "system":
        return ({"role": "system", "content": text}, *messages)
    return ({**first, "content": f"{first['content']}\n\n{text}"}, *messages[1:])


def _brief(schema: Any) -> Any:
    """Remove schema entries that the model does not need, because every prompt contains the schema."""
    if isinstance(schema, list | tuple):
        return [_brief(part) for part in cast("Sequence[Any]", schema)]
    if not isinstance(schema, Mapping):
        return schema
    table, dropped = cast("Mapping[str, Any]", schema), {"additionalProperties": bool, "pattern": str}
    return {key: _brief(part) for key, part in table.items() if not isinstance(part, dropped.get(key, ()))}
