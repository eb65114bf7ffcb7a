"""A masked language model as a policy: its decisions are the holes of a text that is there.

The log-prob of a fill is exact. With all holes filled at once,

    log π(y | x) = Σ_{i in holes} log p(y_i | x),

and in several steps, given the trace of inputs x_1, x_2, ... and an order that does not depend on the weights,

    log π = Σ_t Σ_{i filled at t} log p(y_i | x_t).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steelyard.constraints.base import Bits, members, pack
from steelyard.constraints.trail import TrailWriter
from steelyard.errors import PolicyError
from steelyard.policies.base import Policy
from steelyard.policies.batch import Batch, collate_filled
from steelyard.types import HOLE, Decisions, Prompt, Sample, SampleKey, Task


class MaskedPolicy(Policy):
    """Any ``AutoModelForMaskedLM``, plain or with a PEFT adapter.

    A sample's tokens are its trace: the input of every forward pass, then the filled text, all of one length. Special
    tokens are never valid fills, nor what ``Task.spec["forbidden"]`` lists.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        autocast: torch.dtype | None = None,
        chunk: int | None = None,
        attention: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(model, tokenizer, autocast=autocast, chunk=chunk, attention=attention)
        self.body = self._base.base_model
        if tokenizer.mask_token_id is None:
            raise PolicyError(
                f"{self._config.model_type}: the tokenizer has no mask token, so nothing can be filled in"
            )
        self.mask_id = int(tokenizer.mask_token_id)
        self.pad_id = int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self.mask_id)
        special = set(tokenizer.all_special_ids)
        self._fills = [token for token in range(min(len(tokenizer), self.vocabulary)) if token not in special]
        self._allowed: dict[tuple[str, ...], Bits] = {}
        self._check_head()

    def encode(self, prompt: Prompt) -> np.ndarray:
        """Token ids of a text in which every ``HOLE`` stands for one token to be filled in."""
        if not isinstance(prompt, str):
            raise PolicyError("the prompt is a list of chat messages; a masked model fills the holes of a plain text")
        return self._ids(prompt.replace(HOLE, self.tokenizer.mask_token))

    def allowed(self, task: Task) -> Bits:
        """What may be filled in: everything but special tokens and what the task forbids."""
        forbidden = tuple(task.spec.get("forbidden", ()))
        if forbidden not in self._allowed:
            own = self.tokenizer.get_vocab()
            if unknown := [token for token in forbidden if token not in own]:
                raise PolicyError(f"task {task.id} forbids {unknown[:5]}, which are no tokens of this model")
            out = {own[token] for token in forbidden}
            self._allowed[forbidden] = pack([token for token in self._fills if token not in out], self.vocabulary)
        return self._allowed[forbidden]

    def given(self, task: Task, text: str, key: SampleKey) -> Sample:
        """The text as if the policy had filled all holes of the prompt with it at once."""
        masked, whole = self.encode(task.prompt), self._ids(text)
        hole = masked == self.mask_id
        if len(masked) != len(whole) or (masked != whole)[~hole].any():
            raise PolicyError(f"task {task.id}: the example {text!r:.60} is no way to fill {task.prompt!r:.60}")
        place_N, trail = np.flatnonzero(hole).astype(np.int32), TrailWriter(self.vocabulary)
        allowed = self.allowed(task)
        number = trail.add(allowed)
        if not np.isin(whole[hole], members(allowed)).all():
            raise PolicyError(f"task {task.id}: the example {text!r:.60} fills in what may not be filled in")
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

    def _ids(self, text: str) -> np.ndarray:
        try:
            return np.asarray(self.tokenizer.encode(text), np.int32)
        except Exception as error:  # what a closed vocabulary raises has no class of its own
            unknown = sorted({one for one in text if one not in self.tokenizer.get_vocab()})
            if "[UNK]" not in str(error) or not unknown:
                raise
            raise PolicyError(
                f"the text {text!r:.60} has characters outside the model's closed vocabulary: {unknown[:8]}"
            ) from None

    @torch.no_grad()
    def _check_head(self) -> None:
        ids = torch.tensor([[self.mask_id, self.mask_id]], device=self.device)
        place = torch.arange(2, device=self.device)
        batch = Batch(ids, place[1:] + 1, torch.zeros_like(place), place, place, place, torch.ones(2))
        with self.precision():
            whole = self.model(input_ids=ids).logits[0]
        self.require_agreement(whole, self.head(self.hidden(batch)))


def _seen(batch: Batch) -> Tensor | None:
    """Which columns are text and which are padding; None if there is none."""
    column_T = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
    seen_BT = column_T[None, :] < batch.length_B[:, None]
    return None if bool(seen_BT.all()) else seen_BT.long()
