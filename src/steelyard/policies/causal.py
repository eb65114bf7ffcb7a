"""A causal language model as a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steelyard.errors import PolicyError
from steelyard.policies.base import Policy
from steelyard.policies.batch import Batch, collate_causal
from steelyard.policies.tokens.codec import Codec, Prompting
from steelyard.text import shown
from steelyard.types import Decisions, Prompt, Sample, SampleKey, Task


class CausalPolicy(Policy):
    """Any ``AutoModelForCausalLM``, with or without a PEFT adapter.

    The body (up to the last hidden state) and the head (hidden state to logits) are called separately, so that logits
    exist only for decisions and only for one chunk at a time.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        autocast: torch.dtype | None = None,
        chunk: int | None = None,
        attention: tuple[str, str] | None = None,
        excluded: Sequence[str] | None = None,
    ) -> None:
        super().__init__(model, tokenizer, autocast=autocast, chunk=chunk, attention=attention, excluded=excluded)
        self.prompting = Prompting()
        """How prompts are presented to the model; set it before encoding anything."""
        self.body = self._base.get_decoder()
        self.pad_id = int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self._any_end())
        self._check_head()

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Tokens that end a sample, from the generation config and the tokenizer."""
        configured = self.model.generation_config.eos_token_id
        ids = set(configured if isinstance(configured, list) else [configured]) | {self.tokenizer.eos_token_id}
        return tuple(sorted(int(i) for i in ids if i is not None))

    @property
    def end_id(self) -> int:
        """The end token that a constraint allows: the tokenizer's own, which chat models learn to produce."""
        own = self.tokenizer.eos_token_id
        return self._any_end() if own is None else int(own)

    @property
    def codec(self) -> Codec:
        """The policy's tokenizer and settings, without its weights."""
        return Codec(self.tokenizer, self.end_ids, self.vocabulary, self.excluded, self.prompting)

    def encode(self, prompt: Prompt) -> np.ndarray:
        """Return the token ids of a prompt, presented as ``prompting`` specifies."""
        return self.codec.encode(prompt)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        return self.codec.decode(ids)

    def encode_answer(self, text: str) -> np.ndarray:
        """Return the token ids of a completion, including the end token."""
        return np.asarray([*self.tokenizer.encode(text, add_special_tokens=False), self.end_id], np.int32)

    def sample_from_text(self, task: Task, text: str, key: SampleKey) -> Sample:
        """Convert text to a sample, as if the policy had sampled every token, end included, without a constraint."""
        prompt, answer = self.encode(task.prompt), self.encode_answer(text)
        if never := sorted(set(answer.tolist()).intersection(self.excluded)):
            raise PolicyError(
                f"task {task.id}: the example {shown(text, 60)} contains the token "
                f"{self.tokenizer.convert_ids_to_tokens(never[0])!r}, which is never sampled; remove it from the "
                f"example, or from model.excluded_tokens"
            )
        token_ids = np.concatenate([prompt, answer])
        position_N = np.arange(len(prompt), len(token_ids), dtype=np.int32)
        forward_N = np.arange(len(answer), dtype=np.int32)
        decisions = Decisions(position_N, forward_N, np.zeros(len(answer), np.float32))
        return Sample(key, token_ids, len(prompt), text, "stop", decisions)

    def collate(self, samples: Sequence[Sample]) -> Batch:
        return collate_causal(samples, self.pad_id).to(self.device)

    def hidden(self, batch: Batch) -> Tensor:
        """Return the last hidden state at every decision, ``[N, D]``."""
        with self.precision():
            states_BTD = self.body(input_ids=batch.input_ids, use_cache=False).last_hidden_state
        flat_N = batch.row_N * batch.input_ids.shape[1] + batch.column_N
        return states_BTD.reshape(-1, states_BTD.shape[-1]).index_select(0, flat_N)

    def _any_end(self) -> int:
        ends = self.end_ids
        if not ends:
            raise PolicyError("the tokenizer has neither a padding nor an end-of-sequence token; set one of them")
        return ends[0]

    @torch.no_grad()
    def _check_head(self) -> None:
        """Check that body and head reproduce the complete model's logits, which some architectures transform."""
        ids = torch.tensor([[self.pad_id, self.pad_id]], device=self.device)
        with self.precision():
            whole = self.model(input_ids=ids, use_cache=False).logits[0]
            apart = self.model_logits(self.body(input_ids=ids, use_cache=False).last_hidden_state[0])
        self.require_agreement(whole, apart)
