"""Builds the tokens of a conversation turn by turn, without ever tokenising sampled text again.

A reply is rendered with the chat template's own turn markers, tokenised separately and appended to the sampled tokens.
This is correct if the template only appends: rendering the whole conversation again gives the text of the row so far,
followed by the reply. Some templates rewrite earlier messages, for example to drop reasoning or to normalise tool
calls. In that case the episode *forks*: the next turn starts a new row with the conversation as the template now
renders it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from steelyard.errors import PolicyError
from steelyard.policies.tokens.codec import Codec
from steelyard.types import Message, Prompt

_PROBES: tuple[tuple[str, Message], ...] = (
    ("first answer", {"role": "user", "content": "second question"}),
    ("<think>\nreasoning\n</think>\n\nanswer", {"role": "user", "content": "third question"}),
    (" spaces around \n", {"role": "user", "content": "fourth question"}),
)
"""Pairs of an assistant's text and the reply to it. If the template later changes any of them, it does not only
append."""


class Continuation(NamedTuple):
    """The tokens with which an episode continues after a reply."""

    ids: tuple[int, ...]
    """Tokens to append or, after a fork, the prompt of a new row."""
    forks: bool = False


class Conversations:
    """Renders replies for all episodes of one model."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec

    @cached_property
    def appends(self) -> bool:
        """Whether the chat template only appends to the text it rendered before."""
        messages: list[Message] = [{"role": "user", "content": "first question"}]
        text = self._render(messages)
        for written, reply in _PROBES:
            messages += [{"role": "assistant", "content": written}, reply]
            longer = self._render(messages)
            if longer != text + written + self._after(written, [reply]):
                return False
            text = longer
        return True

    def open(self, prompt: Prompt) -> Conversation:
        """Start an episode from its prompt."""
        messages = self.codec.prompting.messages(prompt)
        if messages is None:
            return Conversation(self)
        return Conversation(self, list(messages), self._render(messages) if not self.appends else "")

    def _render(self, messages: Sequence[Message]) -> str:
        return self.codec.render(messages, answer_next=True)

    def _after(self, written: str, reply: Sequence[Message]) -> str:
        """Return the text that an appending template adds after an answer, up to the start of the next turn."""
        base: list[Message] = [{"role": "user", "content": "question"}, {"role": "assistant", "content": written}]
        opened = self._render(base[:1]) + written
        whole = self._render([*base, *reply])
        return whole[len(opened) :] if whole.startswith(opened) else ""

    def delta(self, reply: Sequence[Message]) -> str:
        """Return the text between an answer and the next turn, for a template that only appends."""
        return self._after("answer", reply)


@dataclass(slots=True)
class Conversation:
    """One episode: its messages and, if the template may rewrite them, the text of the row so far."""

    conversations: Conversations
    messages: list[Message] | None = None
    """``None`` if the prompt and the replies are plain text."""
    text: str = ""
    """The rendered text of this row, including sampled text; kept only if the template may fork."""

    def reply(self, written: str, end: str, reply: Sequence[Message]) -> Continuation:
        """Add a reply to ``written``, which ended with the text of its end token, ``end`` (empty if it had none)."""
        codec = self.conversations.codec
        if self.messages is None:
            return Continuation(codec.token_ids("".join(message["content"] for message in reply)))
        reply = codec.prompting.reply(reply)
        self.messages += [{"role": "assistant", "content": written}, *reply]
        if self.conversations.appends:
            return Continuation(codec.token_ids(self.conversations.delta(reply).removeprefix(end)))
        whole = codec.render(self.messages, answer_next=True)
        row = self.text + written + end
        self.text = whole
        if whole.startswith(row):
            return Continuation(codec.token_ids(whole[len(row) :]))
        return Continuation(codec.token_ids(whole), forks=True)


def require_replies(codec: Codec) -> None:
    """Reject a model whose chat template cannot render a multi-turn conversation."""
    try:
        Conversations(codec).open(({"role": "user", "content": "question"},)).reply(
            "answer", "", [{"role": "user", "content": "reply"}]
        )
    except PolicyError as error:
        raise PolicyError(
            f"{error}; episodes need a template that renders user, assistant and user again: correct chat_template in "
            "the tokenizer's files, or give prompts as strings and set tasks.chat = 'never'"
        ) from None
