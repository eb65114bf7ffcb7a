"""Converts between text and token ids: the part of a policy that a sampler needs besides weights and constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.errors import PolicyError
from steelyard.policies.tokens.chat_template import render_chat, template_ids
from steelyard.policies.tokens.tool_format import Schema, ToolFormat
from steelyard.special_tokens import UNKNOWN
from steelyard.text import shown
from steelyard.types import Message, Prompt


@dataclass(frozen=True, slots=True)
class Prompting:
    """How prompts are presented to a model."""

    chat: bool = False
    """Whether a string prompt becomes a user message in the model's chat template."""
    system: str | None = None
    """System message at the start of every chat, if any."""
    tools: ToolFormat | None = None
    """The tools of the run, if any; prompts that are plain text do not list them."""

    @property
    def template_tools(self) -> Sequence[Schema]:
        """The tools that the chat template lists."""
        return self.tools.schemas if self.tools is not None and self.tools.native else ()

    def messages(self, prompt: Prompt) -> Sequence[Message] | None:
        """Return the chat messages for a prompt, or None if the prompt is used as plain text."""
        if isinstance(prompt, str):
            if not self.chat:
                return None
            prompt = ({"role": "user", "content": prompt},)
        messages = prompt if self.system is None else self._with_system(prompt, self.system)
        return messages if self.tools is None else self.tools.prompt(messages)

    def reply(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages of a reply, converted to roles that the chat template supports."""
        return messages if self.tools is None else self.tools.reply(messages)

    @staticmethod
    def _with_system(prompt: Sequence[Message], system: str) -> Sequence[Message]:
        if prompt[0]["role"] == "system":
            raise PolicyError(
                f"the prompt starts with a system message ({shown(prompt[0]['content'])}), but tasks.system "
                "sets one too; remove one of them"
            )
        return ({"role": "system", "content": system}, *prompt)


@dataclass(frozen=True, slots=True)
class Codec:
    """A tokenizer and the model settings it depends on; it works in a process without the model."""

    tokenizer: Any
    end_ids: tuple[int, ...]
    """Tokens that end a sample."""
    vocabulary: int
    """Number of logits; a model may have more logits than its tokenizer has tokens."""
    excluded: tuple[int, ...] = ()
    """Tokens that are never sampled."""
    prompting: Prompting = Prompting()

    def encode(self, prompt: Prompt) -> np.ndarray:
        """Return the token ids of a prompt; chat messages go through the model's template."""
        messages = self.prompting.messages(prompt)
        if messages is None:
            ids = self._ids(str(prompt), "prompt")
        elif self.tokenizer.chat_template is None:
            raise PolicyError(
                "the prompt is a list of chat messages, but the tokenizer has no chat template; pass prompts as strings"
            )
        else:
            ids = template_ids(self.tokenizer, messages, answer_next=True, tools=self.prompting.template_tools)
        if not ids:
            first = self.tokenizer.bos_token_id
            if first is None:
                raise PolicyError("the prompt is empty, and the tokenizer has no bos_token to start from; set one")
            ids = [first]
        return np.asarray(ids, np.int32)

    def render(self, messages: Sequence[Message], *, answer_next: bool) -> str:
        """Return chat messages as the model's template writes them; ``answer_next`` opens the assistant's turn."""
        return render_chat(self.tokenizer, messages, answer_next=answer_next, tools=self.prompting.template_tools)

    def token_ids(self, text: str) -> tuple[int, ...]:
        """Return the tokens of text inside a sequence, without start or end tokens."""
        return tuple(self._ids(text, "reply", add_special_tokens=False))

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Return the text of a completion with all sampled tokens, special ones included (tool calls, reasoning
        markers), except the token that ended the sample. The verifier therefore sees everything that the policy is
        credited for.
        """
        return self.tokenizer.decode([int(token) for token in ids if token not in self.end_ids])

    def _ids(self, text: str, what: str, **settings: Any) -> list[int]:
        """Return the tokens of text; ``what`` describes the text in the error about unknown words."""
        try:
            return self.tokenizer.encode(text, **settings)
        except Exception as error:  # tokenizers with a closed vocabulary raise a plain Exception
            unknown = [word for word in text.split() if word not in self.tokenizer.get_vocab()]
            if UNKNOWN not in str(error) or not unknown:
                raise
            raise PolicyError(
                f"the {what} {shown(text)} has words outside the model's closed vocabulary: {' '.join(unknown[:8])}; "
                f"add them to model.scratch.vocabulary, or remove them from the {what}"
            ) from None
