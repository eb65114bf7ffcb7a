"""Rows that are decoded together until the last one ends.

Each prompt is processed once and its cache is copied to every sample of its group. Finished rows leave the batch.
Forced tokens are processed together with the token before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from steelyard.constraints.base import unpack
from steelyard.errors import PolicyError
from steelyard.policies.batch import pad_rows
from steelyard.policies.causal import CausalPolicy
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.sampling.cache import Columns, spread_prompts
from steelyard.sampling.draw import draw
from steelyard.sampling.partial_sample import PartialSample
from steelyard.sampling.randomness import U64, stream, uniform
from steelyard.types import SampleKey

COMPACT_BELOW = 0.875
"""Finished rows are removed once the share of unfinished rows is at most this value."""

ALIGNED_MEAN_LIMIT = 1.5
ALIGNED_RUN_LIMIT = 8
"""Aligned rows are kept aligned by single steps while at most ``ALIGNED_MEAN_LIMIT`` tokens are pending per row on
average and every row has fewer than ``ALIGNED_RUN_LIMIT``. Rows that are not aligned need individual masks, which slow
down every later step.
"""

SCRATCH_COLUMNS = 1
"""Extra columns after the capacity, for padding tokens."""

MASKED_KERNELS = ("sdpa", "eager")
"""Attention kernels that accept an explicit mask, needed for several tokens per row at different columns."""

Start = tuple[SampleRequest, SampleKey]
"""A row to start."""


class Wave:
    """Rows of single turns. Arrays named ``_R`` have one entry per row."""

    def __init__(self, policy: CausalPolicy, seed: int, starts: Sequence[Start], decoding: Decoding) -> None:
        self.policy, self.seed, self.decoding = policy, seed, decoding
        prompts: dict[tuple[int, ...], int] = {}
        self.prompt_ids: list[np.ndarray] = []
        self.rows: list[PartialSample] = []
        self.prompt_of_row: list[int] = []
        for request, key in starts:
            shared = key[:3] if request.next_turn is None else key
            if shared not in prompts:
                prompts[shared] = len(self.prompt_ids)
                self.prompt_ids.append(self._tokens(request))
            self.prompt_of_row.append(prompts[shared])
            self.rows.append(self._row(request, key, self.prompt_ids[prompts[shared]]))
        self.stream_R = np.asarray([self._stream(row.key) for row in self.rows], np.uint64)

    def _stream(self, key: SampleKey) -> U64:
        return stream(self.seed, *key)

    def _row(self, request: SampleRequest, key: SampleKey, ids: np.ndarray) -> PartialSample:
        turn, decoding = request.next_turn, self.decoding
        if turn is not None:
            decoding = replace(decoding, max_new_tokens=turn.max_new_tokens)
        ends, constraint = frozenset(self.policy.end_ids), self.policy.constraint
        return PartialSample(request, key, ids, decoding, ends, constraint, self.policy.vocabulary)

    def _tokens(self, request: SampleRequest) -> np.ndarray:
        """Return the tokens that a row continues."""
        if request.next_turn is not None:
            return request.next_turn.token_ids
        ids = self.policy.encode(request.task.prompt)
        limit = self.policy.max_length
        if limit is not None and len(ids) + self.decoding.max_new_tokens > limit:
            raise PolicyError(
                f"task {request.task.id}: a prompt of {len(ids)} tokens plus sampling.max_new_tokens = "
                f"{self.decoding.max_new_tokens} exceeds the model's {limit} positions; shorten the prompt or lower "
                "sampling.max_new_tokens"
            )
        return ids

    def run(self) -> Iterator[PartialSample | None]:
        """Yield rows as they end. No ``no_grad`` context is active while the caller runs."""
        hidden_BD = self._prefill()
        while True:
            self._draw(hidden_BD, self.rows)
            yield from self._newly_finished()
            if all(row.finished for row in self.rows):
                return
            self._compact()
            hidden_BD = self._feed(slice(0, len(self.rows)))

    # --- the model -----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _prefill(self) -> Tensor:
        """Run each prompt once and copy its cache and last hidden state to the rows that continue it."""
        device = self.policy.device
        ids_PT = pad_rows(self.prompt_ids, self.policy.pad_id, left=True).to(device)
        length_P = torch.tensor([len(ids) for ids in self.prompt_ids], device=device)
        width = ids_PT.shape[1]
        self.ragged = bool((length_P != width).any())
        column_T = torch.arange(width, device=device)
        mask_PT = column_T[None, :] >= (width - length_P)[:, None]
        position_PT = (column_T[None, :] - (width - length_P)[:, None]).clamp(min=0)
        cache = DynamicCache(config=self.policy.model.config)
        with self.policy.precision():
            out = self.policy.body(
                input_ids=ids_PT,
                attention_mask=mask_PT.long() if self.ragged else None,
                position_ids=position_PT,
                past_key_values=cache,
                use_cache=True,
            )
        row_B = torch.tensor(self.prompt_of_row, device=device)
        self.capacity = width + max(row.decoding.max_new_tokens for row in self.rows)
        self.cache, self.columns = spread_prompts(out.past_key_values, row_B, self.capacity + SCRATCH_COLUMNS)
        self.filled = width
        """Columns in use in at least one row."""
        self.runs = self.columns is not None and self.policy.attention_kernel in MASKED_KERNELS
        self.padding_R = width - np.asarray([len(row.prompt_ids) for row in self.rows])
        self.end_R = np.full(len(self.rows), width)
        return out.last_hidden_state[:, -1][row_B]

    @torch.no_grad()
    def _feed(self, chosen: slice) -> Tensor:
        """Run one or all pending tokens of the chosen rows and return the hidden state after the last."""
        rows, end_B, padding_B = self.rows[chosen], self.end_R[chosen], self.padding_R[chosen]
        unfinished = [place for place, row in enumerate(rows) if not row.finished]
        count_B = np.zeros(len(rows), np.int64)
        count_B[unfinished] = self._feed_counts([rows[place] for place in unfinished], end_B[unfinished])
        width = int(count_B.max())
        token_BT = np.full((len(rows), width), self.policy.pad_id)
        for place in unfinished:
            row, count = rows[place], count_B[place]
            token_BT[place, :count] = row.pending[:count]
            del row.pending[:count]
        column_BT = end_B[:, None] + np.arange(width)
        aligned = {(count_B[place], end_B[place]) for place in unfinished} == {(width, self.filled)}
        if aligned or self.columns is None:
            end, mask = self.filled + width, self._shared_mask(chosen, width, padding_B)
        else:
            end, mask = self._own_mask(self.columns, chosen, column_BT, padding_B)
        hidden_BTD = self._forward(token_BT, column_BT, padding_B, mask)
        self.end_R[chosen] = end_B + count_B
        self.filled = max(self.filled, end)
        if self.columns is not None:
            self.columns.filled = self.filled
        last_B = torch.from_numpy(np.maximum(count_B - 1, 0)).to(hidden_BTD.device)
        return hidden_BTD[torch.arange(len(last_B), device=last_B.device), last_B]

    def _feed_counts(self, unfinished: Sequence[PartialSample], end_B: np.ndarray) -> list[int]:
        """Choose how many pending tokens to run for each row."""
        pending = [len(row.pending) for row in unfinished]
        if not self.runs:
            return [1] * len(unfinished)
        aligned = len(set(end_B.tolist())) == 1
        if aligned and max(pending) < ALIGNED_RUN_LIMIT and sum(pending) <= ALIGNED_MEAN_LIMIT * len(pending):
            return [min(pending)] * len(unfinished)
        return pending

    def _forward(
        self, token_BT: np.ndarray, column_BT: np.ndarray, padding_B: np.ndarray, mask: Tensor | None
    ) -> Tensor:
        device = self.policy.device
        position_BT = np.minimum(column_BT, self.capacity - 1) - padding_B[:, None]
        with self.policy.precision():
            out = self.policy.body(
                input_ids=torch.from_numpy(token_BT).to(device),
                attention_mask=mask,
                position_ids=torch.from_numpy(position_BT).to(device),
                past_key_values=self.cache,
                use_cache=True,
            )
        return out.last_hidden_state

    def _shared_mask(self, chosen: slice, width: int, padding_B: np.ndarray) -> Tensor | None:
        """Return the mask if all rows write the same columns: only the padding before short prompts is hidden."""
        if self.columns is not None:
            self.columns.next_pass(chosen, self.filled + width)
        if not self.ragged:
            return None
        seen_BL = np.arange(self.filled + width)[None, :] >= padding_B[:, None]
        return torch.from_numpy(seen_BL).to(self.policy.device).long()

    def _own_mask(
        self, columns: Columns, chosen: slice, column_BT: np.ndarray, padding_B: np.ndarray
    ) -> tuple[int, Tensor]:
        """Return the last column and the mask if every row writes at its own end.

        A token attends to its row from the prompt to itself.
        """
        place_BT = np.minimum(column_BT, self.capacity)
        end = int(place_BT.max()) + 1
        columns.next_pass(chosen, end, torch.from_numpy(place_BT).to(self.policy.device))
        column_L = np.arange(end)
        seen_BTL = (column_L <= column_BT[:, :, None]) & (column_L >= padding_B[:, None, None])
        seen = torch.from_numpy(seen_BTL).to(self.policy.device)
        mask = torch.zeros(seen.shape, dtype=columns.dtype, device=seen.device)
        return end, mask.masked_fill_(~seen, torch.finfo(mask.dtype).min)[:, None]

    # --- the rows ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _draw(self, hidden_BD: Tensor, batch: Sequence[PartialSample]) -> None:
        """Draw one token for each row of the batch that has no pending tokens."""
        ready = [place for place, row in enumerate(batch) if row.ready]
        if not ready:
            return
        rows = [batch[place] for place in ready]
        if len(ready) < len(hidden_BD):
            hidden_BD = hidden_BD[torch.tensor(ready, device=hidden_BD.device)]
        written = np.asarray([row.drawn + len(row.tokens) for row in rows])
        uniform_B = torch.from_numpy(uniform(self.stream_R[ready], written)).to(hidden_BD.device)
        drawn = draw(self.policy.head(hidden_BD), self.decoding.rule, uniform_B, self._blocked(rows))
        tokens, logps = drawn.token_B.tolist(), drawn.logp_B.tolist()
        for row, token, logp, kept in zip(rows, tokens, logps, drawn.kept(), strict=True):
            row.take(token, logp, kept)

    def _blocked(self, rows: Sequence[PartialSample]) -> Tensor | None:
        allowed = [row.allowed for row in rows if row.allowed is not None]
        if not allowed:
            return None
        return torch.from_numpy(~unpack(np.stack(allowed), self.policy.vocabulary)).to(self.policy.device)

    def _newly_finished(self) -> Iterator[PartialSample]:
        for row in list(self.rows):
            if row.finished and not row.delivered:
                row.delivered = True
                yield row

    def _compact(self) -> None:
        """Remove finished rows from the batch once there are enough of them."""
        kept = [place for place, row in enumerate(self.rows) if not row.finished]
        if len(kept) > COMPACT_BELOW * len(self.rows):
            return
        self.cache.batch_select_indices(torch.tensor(kept, device=self.policy.device))
        self.end_R, self.padding_R, self.stream_R = self.end_R[kept], self.padding_R[kept], self.stream_R[kept]
        self.rows = [self.rows[place] for place in kept]
