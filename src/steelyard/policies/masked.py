"""A masked language model as a policy: its decisions are the holes of a text that is there.

The log-prob of a fill is exact. With all holes filled at once,

    log π(y | x) = Σ_{i in holes} log p(y_i | x),

and in several steps, given the trace of inputs x_1, x_2, ... and an order that does not depend on the weights,

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
from steelyard.constraints.trail import TrailWriter
from steelyard.errors import PolicyError
from steelyard.policies.base import Policy
from steelyard.policies.batch import Batch, collate_filled
from steelyard.special_tokens import UNKNOWN
from steelyard.text import shown
from steelyard.types import HOLE, Decisions, Prompt, Sample, SampleKey, Task


class MaskedPolicy(Policy):
    """Any ``AutoModelForMaskedLM``, plain or with a PEFT adapter.

    One hole is one token. A sample's tokens are its trace: the input of every forward pass, then the filled text, all
    of one length. Special tokens are never valid fills, nor those that have a text of ``Task.spec["forbidden"]`` in
    them; where tokens are words with spaces between them, those are the words it lists.
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
                f"{self._config.model_type}: the tokenizer has no mask token, so nothing can be filled in"
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
        """Token ids of a text in which every ``HOLE`` stands for one token to be filled in. What stands between holes
        is cut by itself: mask tokens of pretrained models take the space before them.
        """
        if not isinstance(prompt, str):
            raise PolicyError("the prompt is a list of chat messages; a masked model fills the holes of a plain text")
        first, *others = (self._ids(part) for part in prompt.split(HOLE))
        masked = [token for part in others for token in (self.mask_id, *part)]
        return np.asarray([*self._before, *first, *masked, *self._after], np.int32)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def fillable(self, task: Task, most: int) -> np.ndarray:
        """The tokens of a task, if the model has positions for them, at most ``most`` are holes and what is given would
        be given back.
        """
        ids = self.encode(task.prompt)
        if (limit := self.longest) is not None and len(ids) > limit:
            raise PolicyError(
                f"task {task.id}: a text of {len(ids)} tokens passes the model's {limit} positions; shorten it"
            )
        if (holes := int((ids == self.mask_id).sum())) > most:
            raise PolicyError(f"task {task.id} has {holes} holes, more than sampling.max_new_tokens ({most})")
        kept = self.tokenizer.decode(self._inner(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if (kept := kept.replace(self.tokenizer.mask_token, HOLE)) != task.prompt:
            raise PolicyError(
                f"task {task.id}: the tokenizer makes {shown(kept)} of {shown(task.prompt)}, so what is given would be "
                f"changed; take a model whose tokenizer keeps texts as they are (byte-level BPE as RoBERTa and "
                f"ModernBERT have it, or model.scratch over characters)"
            )
        return ids

    def allowed(self, task: Task) -> Bits:
        """What may be filled in: everything but special tokens and what the task forbids."""
        forbidden = tuple(task.spec.get("forbidden", ()))
        if forbidden not in self._allowed:
            having = {text: self._having(text) for text in forbidden}
            if unknown := [text for text, tokens in having.items() if not tokens]:
                raise PolicyError(f"task {task.id} forbids {unknown[:5]}, which no token of this model has in it")
            out = set[int]().union(*having.values())
            self._allowed[forbidden] = pack([token for token in self._fills if token not in out], self.vocabulary)
        return self._allowed[forbidden]

    def _having(self, text: str) -> set[int]:
        """The tokens that have a text in them; of words with spaces between them, the word itself."""
        written = self._written
        if self.decode(self._fills[:1] * 2) == f"{written[0]} {written[0]}":
            return {token for token, own in zip(self._fills, written, strict=True) if own == text}
        return {token for token, own in zip(self._fills, written, strict=True) if text in own}

    @cached_property
    def _written(self) -> list[str]:
        return [self.decode([token]) for token in self._fills]

    def given(self, task: Task, text: str, key: SampleKey) -> Sample:
        """The text as if the policy had filled all holes of the prompt with it at once."""
        masked = self.encode(task.prompt)
        if (whole := self._filled(masked, text)) is None:
            raise PolicyError(
                f"task {task.id}: the example {shown(text, 60)} does not fill {shown(task.prompt, 60)}, in which "
                f"each hole is one token of this model"
            )
        hole = masked == self.mask_id
        place_N, trail = np.flatnonzero(hole).astype(np.int32), TrailWriter(self.vocabulary)
        allowed = self.allowed(task)
        number = trail.add(allowed)
        if not np.isin(whole[hole], members(allowed)).all():
            raise PolicyError(f"task {task.id}: the example {shown(text, 60)} fills in what may not be filled in")
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
        """What goes into the output layer at every decision; the layer itself is given nothing to do."""
        flat_N = batch.row_N * batch.input_ids.shape[1] + batch.column_N
        caught: list[Tensor] = []

        def catch(_layer: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
            states_BTD = inputs[0]
            caught.append(states_BTD.reshape(-1, states_BTD.shape[-1]).index_select(0, flat_N))
            return (states_BTD[:0],)

        watching = self._output.register_forward_pre_hook(catch)
        try:
            with self.precision():
                self.model(input_ids=batch.input_ids, attention_mask=_seen(batch))
        finally:
            watching.remove()
        return caught[0]

    def _inner(self, ids: np.ndarray) -> np.ndarray:
        """A text's tokens without the special ones around it."""
        return ids[len(self._before) : len(ids) - len(self._after)]

    def _filled(self, masked: np.ndarray, text: str) -> np.ndarray | None:
        """The masked tokens with those of a text in their holes, None if they do not fit. Beside a hole what is given
        may be cut otherwise than within the text.
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
        """The tokens of a text or a part of one, without those around it; special tokens in it are text like any."""
        if not text:  # between neighbouring holes
            return []
        try:
            return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        except Exception as error:  # what a closed vocabulary raises has no class of its own
            unknown = sorted({one for one in text if one not in self.tokenizer.get_vocab()})
            if UNKNOWN not in str(error) or not unknown:
                raise
            raise PolicyError(
                f"the text {shown(text, 60)} has characters outside the model's closed vocabulary: {unknown[:8]}"
            ) from None

    @torch.no_grad()
    def _check_head(self) -> None:
        ids = torch.tensor([[self.mask_id, self.mask_id]], device=self.device)
        place = torch.arange(2, device=self.device)
        batch = Batch(ids, place[1:] + 1, torch.zeros_like(place), place, place, place, torch.ones(2))
        with self.precision():
            whole = self.model(input_ids=ids).logits[0]
        self.require_agreement(whole, self.model_logits(self.hidden(batch)))


def _seen(batch: Batch) -> Tensor | None:
    """Which columns are text and which are padding; None if there is none."""
    column_T = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
    seen_BT = column_T[None, :] < batch.length_B[:, None]
    return None if bool(seen_BT.all()) else seen_BT.long()
