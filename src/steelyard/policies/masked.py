"""A masked language model as a policy: its decisions fill the holes in a given text.

The log-prob of a fill is exact. If all holes are filled in one pass,

    log π(y | x) = Σ_{i in holes} log p(y_i | x),

and if they are filled in several passes with inputs x_1, x_2, ... in an order that does not depend on the weights,

    log π = Σ_t Σ_{i filled at t} log p(y_i | x_t).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steelyard.constraints.base import Bits, members, pack
from steelyard.constraints.support_tables import SupportTableWriter
from steelyard.errors import PolicyError
from steelyard.policies.base import Policy
from steelyard.policies.batch import Batch, collate_filled
from steelyard.special_tokens import UNKNOWN
from steelyard.text import shown
from steelyard.types import HOLE, Decisions, Prompt, Sample, SampleKey, Task


class MaskedPolicy(Policy):
    """Any ``AutoModelForMaskedLM``, with or without a PEFT adapter.

    One hole is one token. A sample's tokens are its trace: the input of every forward pass, then the filled text, all
    of the same length. Special tokens are never filled in, nor are tokens that contain a string from
    ``Task.spec["forbidden"]``; if tokens are words separated by spaces, the forbidden strings are complete words.
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
        self.body = self._base.base_model
        if tokenizer.mask_token_id is None:
            raise PolicyError(
                f"{self._config.model_type}: the tokenizer has no mask_token, which filling holes requires; "
                "use a masked model"
            )
        self.mask_id = int(tokenizer.mask_token_id)
        self.pad_id = int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self.mask_id)
        around = [int(token) for token in tokenizer.encode(tokenizer.mask_token)]
        place = around.index(self.mask_id)
        self._before, self._after = around[:place], around[place + 1 :]
        never = {*tokenizer.all_special_ids, *self.excluded}
        self._fills = [token for token in range(self.vocabulary) if token not in never]
        self._allowed: dict[tuple[str, ...], Bits] = {}
        self._check_head()

    def encode(self, prompt: Prompt) -> np.ndarray:
        """Return the token ids of text in which every ``HOLE`` is one token to fill in. The parts between holes are
        tokenized separately, because mask tokens of pretrained models absorb the space before them.
        """
        if not isinstance(prompt, str):
            raise PolicyError(
                "the prompt is a list of chat messages, but a masked model fills holes in text; pass a string"
            )
        first, *others = (self._ids(part) for part in prompt.split(HOLE))
        masked = [token for part in others for token in (self.mask_id, *part)]
        return np.asarray([*self._before, *first, *masked, *self._after], np.int32)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def encode_task(self, task: Task, most: int) -> np.ndarray:
        """Return the token ids of a task. Raise if the task exceeds the model's maximum length, has more than ``most``
        holes, or is changed by tokenization.
        """
        ids = self.encode(task.prompt)
        if (limit := self.max_length) is not None and len(ids) > limit:
            raise PolicyError(
                f"task {task.id} has {len(ids)} tokens, but the model has {limit} positions; shorten the text"
            )
        if (holes := int((ids == self.mask_id).sum())) > most:
            raise PolicyError(f"task {task.id} has {holes} holes, more than sampling.max_new_tokens = {most}; raise it")
        kept = self.tokenizer.decode(self._inner(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if (kept := kept.replace(self.tokenizer.mask_token, HOLE)) != task.prompt:
            raise PolicyError(
                f"task {task.id}: the tokenizer changes {shown(task.prompt)} to {shown(kept)}; use a model whose "
                f"tokenizer preserves text (byte-level BPE such as RoBERTa and ModernBERT, or model.scratch over "
                f"characters)"
            )
        return ids

    def allowed(self, task: Task) -> Bits:
        """Return the tokens that may be filled in: all except special tokens and those the task forbids."""
        forbidden = tuple(task.spec.get("forbidden", ()))
        if forbidden not in self._allowed:
            having = {text: self._tokens_with(text) for text in forbidden}
            if unknown := [text for text, tokens in having.items() if not tokens]:
                raise PolicyError(f"task {task.id} forbids {unknown[:5]}, but no token contains it; remove it")
            out = set[int]().union(*having.values())
            self._allowed[forbidden] = pack([token for token in self._fills if token not in out], self.vocabulary)
        return self._allowed[forbidden]

    def _tokens_with(self, text: str) -> set[int]:
        """Return the tokens that contain a string; in a vocabulary of separate words, only the word itself."""
        written = self._token_texts
        if self.decode(self._fills[:1] * 2) == f"{written[0]} {written[0]}":
            return {token for token, own in zip(self._fills, written, strict=True) if own == text}
        return {token for token, own in zip(self._fills, written, strict=True) if text in own}

    @cached_property
    def _token_texts(self) -> list[str]:
        return [self.decode([token]) for token in self._fills]

    def sample_from_text(self, task: Task, text: str, key: SampleKey) -> Sample:
        """Convert the text to a sample, as if the policy had filled all holes in the prompt in one pass."""
        masked = self.encode(task.prompt)
        if (whole := self._filled(masked, text)) is None:
            raise PolicyError(
                f"task {task.id}: the example {shown(text, 60)} does not fill {shown(task.prompt, 60)}; each hole "
                f"must be one token of this model"
            )
        hole = masked == self.mask_id
        place_N, trail = np.flatnonzero(hole).astype(np.int32), SupportTableWriter(self.vocabulary)
        allowed = self.allowed(task)
        number = trail.add(allowed)
        if not np.isin(whole[hole], members(allowed)).all():
            raise PolicyError(
                f"task {task.id}: the example {shown(text, 60)} fills in a forbidden or special token; use "
                "another example"
            )
        decisions = Decisions(
            position_N=place_N + len(masked),
            forward_N=np.zeros(len(place_N), np.int32),
            logp_N=np.zeros(len(place_N), np.float32),
            support_N=np.full(len(place_N), number, np.int32),
            supports=trail.table(),
        )
        return Sample(key, np.concatenate([masked, whole]), len(masked), text, "stop", decisions)

    def collate(self, samples: Sequence[Sample]) -> Batch:
        return collate_filled(samples, self.pad_id).to(self.device)

    def hidden(self, batch: Batch) -> Tensor:
        """Return the input of the output layer at every decision; the layer itself receives no rows."""
        flat_N = batch.row_N * batch.input_ids.shape[1] + batch.column_N
        caught: list[Tensor] = []

        def catch(_layer: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
            states_BTD = inputs[0]
            caught.append(states_BTD.reshape(-1, states_BTD.shape[-1]).index_select(0, flat_N))
            return (states_BTD[:0],)

        hook = self._output.register_forward_pre_hook(catch)
        try:
            with self.precision():
                self.model(input_ids=batch.input_ids, attention_mask=_attention_mask(batch))
        finally:
            hook.remove()
        return caught[0]

    def _inner(self, ids: np.ndarray) -> np.ndarray:
        """Return the text's tokens without the special tokens around it."""
        return ids[len(self._before) : len(ids) - len(self._after)]

    def _filled(self, masked: np.ndarray, text: str) -> np.ndarray | None:
        """Fill the holes with the tokens of the text, or return None if the text does not fit. The text next to a hole
        may be tokenized differently on its own than within the complete text.
        """
        own, ids, at = self._ids(text), list(self._before), 0
        inner = self._inner(masked)
        first, *others = np.split(inner, np.flatnonzero(inner == self.mask_id))
        for number, part in enumerate([first.tolist(), *(other[1:].tolist() for other in others)]):
            if number:
                ids += own[at : at + 1]
                at += 1
            end = at + len(part)
            if own[at:end] != part:
                written = self.decode(part)
                ends = (end for end in range(at + 1, len(own) + 1) if self.decode(own[at:end]) == written)
                if (end := next(ends, 0)) == 0:
                    return None
            ids += part
            at = end
        return np.asarray([*ids, *self._after], np.int32) if at == len(own) else None

    def _ids(self, text: str) -> list[int]:
        """Return the text's tokens without special tokens around it; special tokens inside it count as text."""
        if not text:  # between neighbouring holes
            return []
        try:
            return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        except Exception as error:  # tokenizers with a closed vocabulary raise a plain Exception
            unknown = sorted({character for character in text if character not in self.tokenizer.get_vocab()})
            if UNKNOWN not in str(error) or not unknown:
                raise
            raise PolicyError(
                f"the text {shown(text, 60)} has characters outside the model's closed vocabulary: {unknown[:8]}; "
                "remove them, or add them to model.scratch.vocabulary"
            ) from None

    @torch.no_grad()
    def _check_head(self) -> None:
        ids = torch.tensor([[self.mask_id, self.mask_id]], device=self.device)
        place = torch.arange(2, device=self.device)
        batch = Batch(ids, place[1:] + 1, torch.zeros_like(place), place, place, place, torch.ones(2))
        with self.precision():
            whole = self.model(input_ids=ids).logits[0]
        self.require_agreement(whole, self.model_logits(self.hidden(batch)))


def _attention_mask(batch: Batch) -> Tensor | None:
    """Return the attention mask, or None if there is no padding."""
    column_T = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
    seen_BT = column_T[None, :] < batch.length_B[:, None]
    return None if bool(seen_BT.all()) else seen_BT.long()
