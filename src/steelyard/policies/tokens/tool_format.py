"""The format in which a model reads the list of tools, writes a call and reads a result.

If the chat template supports tools, it lists them, and results are messages with the role ``tool``. This is tested by
rendering a conversation with a call. Otherwise the system message lists the tools and shows the form of a call, and
results are user messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.errors import PolicyError
from steelyard.policies.tokens.chat_template import render_chat
from steelyard.tools.calls import CLOSE, OPEN, Call, listing, read_calls, with_system
from steelyard.types import Message

Schema = Mapping[str, Any]

RESULT = "Result: {}"
"""Format of a result as a user message, for templates that do not support tools."""
_QUESTION: Message = {"role": "user", "content": "question"}
_CALL = Call("probe_tool", {"number": 7})


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """The tools of a run, in the format that the model reads and writes."""

    schemas: tuple[Schema, ...]
    native: bool = False
    """Whether the chat template lists the tools and supports the role ``tool``."""
    before: str = OPEN
    """Text before the JSON of a call."""
    after: str = CLOSE
    arguments: str = "arguments"
    """Key of a call's arguments."""

    @property
    def listed(self) -> str:
        """The system message for a template that does not list tools."""
        return listing(self.schemas, self.before, self.after)

    def prompt(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Unless the template supports tools, list them in the system message and turn results into user messages."""
        if self.native:
            return messages
        messages = [part for message in messages for part in self.reply([message])]
        return with_system(messages, self.listed)

    def reply(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Turn results into one user message, unless the template has a role for them."""
        results = [message for message in messages if message["role"] == "tool"]
        if self.native or not results:
            return messages
        text = "\n".join(RESULT.format(result["content"]) for result in results)
        return ({"role": "user", "content": text}, *(message for message in messages if message["role"] != "tool"))


def find_format(tokenizer: Any, schemas: Sequence[Schema]) -> ToolFormat:
    """Return the template's own format if it can be used, else the text format."""
    plain = ToolFormat(tuple(schemas))
    if tokenizer.chat_template is None:
        return plain
    try:
        return _native_format(tokenizer, plain) or plain
    except PolicyError:  # the template rejects one of the conversations
        return plain


def _native_format(tokenizer: Any, plain: ToolFormat) -> ToolFormat | None:
    def render(*messages: Mapping[str, Any], answer_next: bool = True) -> str:
        return render_chat(tokenizer, messages, answer_next=answer_next, tools=plain.schemas)

    opened = render(_QUESTION)
    if not all(json.dumps(schema["function"]["name"]) in opened for schema in plain.schemas):
        return None
    function = {"name": _CALL.name, "arguments": _CALL.arguments}
    calls = [{"type": "function", "function": function}]
    called = render(_QUESTION, {"role": "assistant", "content": "", "tool_calls": calls}, answer_next=False)
    end = render(_QUESTION, {"role": "assistant", "content": "answer"}, answer_next=False).partition("answer")[2]
    form = r'(.*?)\{"name": ?"probe_tool", ?"(arguments|parameters)": ?\{"number": ?7\}\}(.*)'
    match = re.fullmatch(form, called.removeprefix(opened), re.DOTALL)
    if match is None or not called.startswith(opened) or not match[3].endswith(end):
        return None
    before = match[1][match[1].find(OPEN) :] if OPEN in match[1] else match[1]  # without a block of reasoning
    found = ToolFormat(plain.schemas, True, before, match[3].removesuffix(end), match[2])
    written = found.before + json.dumps({"name": _CALL.name, found.arguments: _CALL.arguments}) + found.after
    replied = render(_QUESTION, {"role": "assistant", "content": written}, {"role": "tool", "content": "result 42"})
    return found if read_calls(written) == [_CALL] and written in replied and "result 42" in replied else None
