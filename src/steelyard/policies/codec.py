"""Between texts and token ids: all that a sampler needs of a policy besides its weights and its constraint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.errors import PolicyError
from steelyard.policies.templates import template_ids
from steelyard.types import Prompt


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

    def encode(self, prompt: Prompt) -> np.ndarray:
        """Token ids of a prompt; chat messages go through the model's template, a string is taken as it is."""
        if isinstance(prompt, str):
            ids = self._ids(prompt)
        elif self.tokenizer.chat_template is None:
            raise PolicyError("the prompt is a list of chat messages, but this model's tokenizer has no chat template")
        else:
            ids = template_ids(self.tokenizer, prompt, answer_next=True)
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
            if "[UNK]" not in str(error) or not unknown:
                raise
            raise PolicyError(
                f"the prompt {text!r:.80} has words outside the model's closed vocabulary: {' '.join(unknown[:8])}; "
                f"add them to model.scratch.vocabulary, or leave them out of the prompt"
            ) from None
