"""The tokens of a conversation, turn by turn, in which sampled tokens are never tokenised again.

A reply is rendered with the chat template's own turn markers, tokenised by itself and appended to the tokens that were
sampled. That is right if the template only ever appends: rendering the whole conversation again gives the text of the
row so far, followed by the reply. Some templates rewrite what came before (they drop earlier reasoning, or normalise
tool calls). Then the next turn starts a new row from the conversation as the template renders it now: the episode
*forks*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
"""What an assistant wrote, and the reply to it. A template that changes any of it later does not only append."""


class Continuation(NamedTuple):
    """What a row continues with after a reply."""

    ids: tuple[int, ...]
    """Tokens to append or, after a fork, the prompt of a new row."""
    forks: bool = False


class Conversations:
    """Renders the replies of many episodes of one model."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec

    @cached_property
    def appends(self) -> bool:
        """Whether the chat template only ever appends to what it rendered before."""
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
        """Return what an appending template puts behind an answer: its end, the reply, and the next turn's opening."""
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
    """``None``: the prompt is plain text, and so are the replies."""
    text: str = ""
    """What the template rendered for this row, with the sampled text; only kept where the template may fork."""
    forks: int = field(default=0)

    def reply(self, written: str, end: str, reply: Sequence[Message]) -> Continuation:
        """Continue after ``written``, which the token ``end`` ended (empty: nothing ended it), with a reply."""
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
        self.forks += 1
        return Continuation(codec.token_ids(whole), forks=True)


def require_replies(codec: Codec) -> None:
    """Reject a model whose chat template cannot render a conversation of several turns."""
    try:
        Conversations(codec).open(({"role": "user", "content": "question"},)).reply(
            "answer", "", [{"role": "user", "content": "reply"}]
        )
    except PolicyError as error:
        raise PolicyError(
            f"{error}; episodes need a template that renders user, assistant and user again: correct chat_template in "
            "the tokenizer's files, or give prompts as strings and set tasks.chat = 'never'"
        ) from None
