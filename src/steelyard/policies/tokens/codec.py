"""Between texts and token ids: all that a sampler needs of a policy besides its weights and its constraint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.errors import PolicyError
from steelyard.policies.tokens.chat_template import template_ids
from steelyard.special_tokens import UNKNOWN
from steelyard.text import shown
from steelyard.types import Message, Prompt


@dataclass(frozen=True, slots=True)
class Prompting:
    """How prompts are sent to a model."""

    chat: bool = False
    """A string is sent as a user message, through the model's chat template."""
    system: str | None = None
    """A message before every chat."""

    def messages(self, prompt: Prompt) -> Sequence[Message] | None:
        """The chat that a prompt is sent as; None for a string that is sent as it is."""
        if isinstance(prompt, str):
            if not self.chat:
                return None
            prompt = ({"role": "user", "content": prompt},)
        if self.system is None:
            return prompt
        if prompt[0]["role"] == "system":
            raise PolicyError(
                f"the prompt starts with a system message ({shown(prompt[0]['content'])}), and tasks.system gives "
                "another; remove one of them"
            )
        return ({"role": "system", "content": self.system}, *prompt)


@dataclass(frozen=True, slots=True)
class Codec:
    """A tokenizer with what the model says of it; a process without the model can have one."""

    tokenizer: Any
    end_ids: tuple[int, ...]
    """Tokens that end a sample."""
    vocabulary: int
    """How many logits there are; a model may have more than its tokenizer has tokens."""
    excluded: tuple[int, ...] = ()
    """Tokens that are never sampled."""
    prompting: Prompting = Prompting()

    def encode(self, prompt: Prompt) -> np.ndarray:
        """Token ids of a prompt; chat messages, and strings that are sent as one, go through the model's template."""
        messages = self.prompting.messages(prompt)
        if messages is None:
            ids = self._ids(str(prompt))
        elif self.tokenizer.chat_template is None:
            raise PolicyError("the prompt is a list of chat messages, but this model's tokenizer has no chat template")
        else:
            ids = template_ids(self.tokenizer, messages, answer_next=True)
        if not ids:
            first = self.tokenizer.bos_token_id
            if first is None:
                raise PolicyError("an empty prompt needs a tokenizer with a beginning-of-sequence token")
            ids = [first]
        return np.asarray(ids, np.int32)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of a completion. It shows every token that was sampled, special ones included (a tool call's, those
        around reasoning), except the one that ended the sample: a verifier sees all that the policy is credited for.
        """
        return self.tokenizer.decode([int(token) for token in ids if token not in self.end_ids])

    def _ids(self, text: str) -> list[int]:
        try:
            return self.tokenizer.encode(text)
        except Exception as error:  # what a closed vocabulary raises has no class of its own
            unknown = [word for word in text.split() if word not in self.tokenizer.get_vocab()]
            if UNKNOWN not in str(error) or not unknown:
                raise
            raise PolicyError(
                f"the prompt {shown(text)} has words outside the model's closed vocabulary: {' '.join(unknown[:8])}; "
                f"add them to model.scratch.vocabulary, or leave them out of the prompt"
            ) from None
