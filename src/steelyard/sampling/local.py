"""Batched generation with the policy's own transformers model.

Each prompt is processed once and its cache is copied to every sample of its group. Finished rows leave the batch.
Forced tokens are processed together with the token before them. Each draw uses one uniform keyed by (seed, step, slot,
attempt, sample, position).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from transformers import PretrainedConfig
from transformers.cache_utils import DynamicCache

from steelyard import defaults
from steelyard.constraints.base import unpack
from steelyard.errors import PolicyError
from steelyard.policies.batch import pad_rows
from steelyard.policies.causal import CausalPolicy
from steelyard.sampling.base import Decoding, NextTurn, SampleRequest, TurnQueue
from steelyard.sampling.cache import Columns, PreallocatedLayer, spread_prompts
from steelyard.sampling.draw import draw
from steelyard.sampling.offsets import TextOffsets
from steelyard.sampling.partial_sample import PartialSample
from steelyard.sampling.randomness import stream, uniform
from steelyard.types import Sample, SampleKey

COMPACT_BELOW = 0.875
"""Finished rows are removed once the share of unfinished rows is at most this value."""

ALIGNED_MEAN_LIMIT = 1.5
ALIGNED_RUN_LIMIT = 8
"""Aligned rows are kept aligned by single steps while at most ``ALIGNED_MEAN_LIMIT`` tokens are pending per row on
average and every row has fewer than ``ALIGNED_RUN_LIMIT``. Rows that are not aligned need individual masks, which slow
down every later step.
"""

SCRATCH_COLUMNS = 1
"""Columns behind the capacity, for padding tokens."""

GROWTH = 1.5
"""Factor by which the cache grows when an episode needs more room."""

MASKED_KERNELS = ("sdpa", "eager")
"""Attention kernels that accept an explicit mask, needed for several tokens per row at different columns."""


OTHER_ENGINE = "use sampling.engine = 'vllm' (extra vllm) if it supports the model, or another model"


def require_sampleable(policy: CausalPolicy) -> None:
    """Reject architectures with an unsupported cache or positions: sampling would be wrong or fail midway."""
    config = policy.model.config
    spread = all(hasattr(layer, "batch_select_indices") for layer in DynamicCache(config=config).layers)
    if not spread or getattr(policy.base, "_is_stateful", False):
        raise PolicyError(
            f"model {config.model_type!r} has a recurrent state (hybrid or state-space), which the local sampler "
            f"cannot copy from a prompt to its samples; {OTHER_ENGINE}"
        )
    if policy.constraint is not None and has_alibi(config):
        raise PolicyError(
            f"model {config.model_type!r} uses ALiBi positions, which do not support the masks that rows of different "
            f"lengths need under a constraint; remove the constraint, or {OTHER_ENGINE}"
        )


def has_alibi(config: PretrainedConfig) -> bool:
    """Return whether attention is biased by distance instead of using position embeddings (BLOOM, MPT, some Falcon)."""
    attention: Any = getattr(config, "attn_config", None)
    return config.model_type == "bloom" or bool(getattr(config, "alibi", False) or getattr(attention, "alibi", False))


class LocalSampler:
    """Samples from a ``CausalPolicy`` in this process; updates by the learner take effect immediately."""

    def __init__(self, policy: CausalPolicy, *, seed: int, max_rows: int = defaults.MAX_ROWS) -> None:
        require_sampleable(policy)
        self.policy = policy
        self.seed = seed
        self.max_rows = max_rows
        self.offsets = TextOffsets(policy.tokenizer, policy.decode)
        self.version = 0

    def publish(self, version: int) -> None:
        self.version = version

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        for sample in self._waves(requests, decoding, None):
            if sample is not None:
                yield sample

    def sample_turns(
        self, requests: Sequence[SampleRequest], decoding: Decoding, turns: TurnQueue
    ) -> Iterator[Sample | None]:
        """See :class:`EpisodeSampler`. At most ``max_rows`` episodes are open at a time, which bounds their caches."""
        return self._waves(requests, decoding, turns)

    def _waves(
        self, requests: Sequence[SampleRequest], decoding: Decoding, turns: TurnQueue | None
    ) -> Iterator[Sample | None]:
        rows = [(request, key) for request in requests for key in request.keys]
        self.policy.sample_mode()
        for start in range(0, len(rows), self.max_rows):
            yield from _Wave(self, rows[start : start + self.max_rows], decoding, turns).run()


class _Wave:
    """Rows that are decoded together until the last one ends.

    The first ``batch`` rows take part in forward passes. Behind them are parked the episodes that wait for a reply,
    with their cache.
    """

    def __init__(
        self,
        sampler: LocalSampler,
        rows: Sequence[tuple[SampleRequest, SampleKey]],
        decoding: Decoding,
        turns: TurnQueue | None,
    ) -> None:
        self.sampler, self.policy, self.decoding, self.turns = sampler, sampler.policy, decoding, turns
        prompts: dict[tuple[int, int, int], int] = {}
        self.prompt_ids: list[np.ndarray] = []
        self.rows: list[PartialSample] = []
        self.prompt_of_row: list[int] = []
        for request, key in rows:
            place = (request.step, request.slot, request.attempt)
            if place not in prompts:
                prompts[place] = len(self.prompt_ids)
                self.prompt_ids.append(self._encode(request))
            self.prompt_of_row.append(prompts[place])
            self.rows.append(self._row(request, key, self.prompt_ids[prompts[place]], decoding))
        self.batch = len(self.rows)
        self.stream_R = stream(sampler.seed, *np.asarray([row.key for row in self.rows]).T)

    def _row(self, request: SampleRequest, key: SampleKey, ids: np.ndarray, decoding: Decoding) -> PartialSample:
        ends, constraint = frozenset(self.policy.end_ids), self.policy.constraint
        return PartialSample(request, key, ids, decoding, ends, constraint, self.policy.vocabulary)

    def _encode(self, request: SampleRequest) -> np.ndarray:
        ids = self.policy.encode(request.task.prompt)
        limit = self.policy.max_length
        if limit is not None and len(ids) + self.decoding.max_new_tokens > limit:
            raise PolicyError(
                f"task {request.task.id}: a prompt of {len(ids)} tokens plus sampling.max_new_tokens = "
                f"{self.decoding.max_new_tokens} exceeds the model's {limit} positions; shorten the prompt or lower "
                "sampling.max_new_tokens"
            )
        return ids

    def run(self) -> Iterator[Sample | None]:
        """Yield turns as they end. No ``no_grad`` context is active while the caller runs."""
        hidden_BD = self._prefill()
        while True:
            ready = [place for place, row in enumerate(self.rows[: self.batch]) if row.ready]
            if ready:
                self._draw(hidden_BD, ready)
            for row in self._newly_finished():
                yield row.finish(self.sampler.offsets, self.sampler.version)
            if all(self._is_over(row) for row in self.rows):
                return
            self._compact()
            resumed = self._resume()
            if all(row.finished for row in self.rows[: self.batch]):
                yield None
            else:
                hidden_BD = self._feed_batch(resumed)

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
        self.capacity = width + self.decoding.max_new_tokens
        self.cache, self.columns = spread_prompts(out.past_key_values, row_B, self.capacity + SCRATCH_COLUMNS)
        self.filled = width
        self.runs = self.columns is not None and self.policy.attention_kernel in MASKED_KERNELS
        self.padding_R = width - np.asarray([len(row.prompt_ids) for row in self.rows])
        self.end_R = np.full(len(self.rows), width)
        self.delivered: set[PartialSample] = set()
        if self.turns is not None and not self.runs:
            raise PolicyError(
                f"model {self.policy.model.config.model_type!r} with attention {self.policy.attention_kernel!r} has "
                "a cache that episodes cannot wait in (a sliding window, or a kernel without masks); "
                f"set model.attention = 'sdpa', or {OTHER_ENGINE}"
            )
        return out.last_hidden_state[:, -1][row_B]

    def _feed_batch(self, resumed: int) -> Tensor:
        """Run the pending tokens of the batch; the last ``resumed`` rows have whole replies and run by themselves."""
        first = self.batch - resumed
        if not resumed:
            return self._feed(slice(0, first))
        if all(row.finished for row in self.rows[:first]):
            hidden_RD = self._feed(slice(first, self.batch))
            return torch.cat([hidden_RD.new_zeros(first, hidden_RD.shape[1]), hidden_RD])
        return torch.cat([self._feed(slice(0, first)), self._feed(slice(first, self.batch))])

    @torch.no_grad()
    def _feed(self, chosen: slice) -> Tensor:
        """Run one or all pending tokens of the chosen rows and return the hidden state after the last."""
        rows, end_B = self.rows[chosen], self.end_R[chosen]
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
        padding_B = self.padding_R[chosen]
        if self.columns is not None:
            self.columns.rows = chosen
        if aligned or self.columns is None:
            mask = self._shared_mask(width, padding_B)
        else:
            mask = self._own_mask(self.columns, column_BT, padding_B)
        hidden_BTD = self._forward(token_BT, column_BT, padding_B, mask)
        self.end_R[chosen] = end_B + count_B
        self.filled += width
        if self.columns is not None:
            self.columns.filled = self.filled = self.columns.end
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

    def _shared_mask(self, width: int, padding_B: np.ndarray) -> Tensor | None:
        """Return the mask if all rows write the same columns: only the padding before short prompts is hidden."""
        if self.columns is not None:
            self.columns.place_BT, self.columns.end = None, self.filled + width
        if not self.ragged:
            return None
        seen_BL = np.arange(self.filled + width)[None, :] >= padding_B[:, None]
        return torch.from_numpy(seen_BL).to(self.policy.device).long()

    def _own_mask(self, columns: Columns, column_BT: np.ndarray, padding_B: np.ndarray) -> Tensor:
        """Return the mask if every row writes at its own end: a token attends to its row from the prompt to itself."""
        place_BT = np.minimum(column_BT, self.capacity)
        end = max(self.filled, int(place_BT.max()) + 1)
        columns.place_BT, columns.end = torch.from_numpy(place_BT).to(self.policy.device), end
        column_L = np.arange(end)
        seen_BTL = (column_L <= column_BT[:, :, None]) & (column_L >= padding_B[:, None, None])
        seen = torch.from_numpy(seen_BTL).to(self.policy.device)
        mask = torch.zeros(seen.shape, dtype=columns.dtype, device=seen.device)
        return mask.masked_fill_(~seen, torch.finfo(mask.dtype).min)[:, None]

    # --- the rows ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _draw(self, hidden_BD: Tensor, ready: list[int]) -> None:
        """Draw one token for each row without pending tokens."""
        rows = [self.rows[place] for place in ready]
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
            if row.finished and row not in self.delivered:
                self.delivered.add(row)
                yield row

    def _is_over(self, row: PartialSample) -> bool:
        return row.finished is not None and (self.turns is None or self.turns.is_over(row.key))

    def _compact(self) -> None:
        """Take finished rows out of the batch once there are enough of them; waiting episodes are parked behind it."""
        active = [place for place, row in enumerate(self.rows[: self.batch]) if not row.finished]
        if len(active) > COMPACT_BELOW * self.batch:
            return
        waiting = [place for place, row in enumerate(self.rows) if row.finished and not self._is_over(row)]
        order = active + waiting
        self.batch = len(active)
        if order == list(range(len(self.rows))):
            return
        if self.columns is not None:
            self.columns.rows = slice(None)
        self.cache.batch_select_indices(torch.tensor(order, device=self.policy.device))
        self.end_R, self.padding_R, self.stream_R = self.end_R[order], self.padding_R[order], self.stream_R[order]
        self.rows = [self.rows[place] for place in order]

    def _resume(self) -> int:
        """Continue the episodes whose next turn has arrived, as the last rows of the batch; return their number."""
        requests = [] if self.turns is None else self.turns.take()
        for request in requests:
            place = self._place(request)
            if place < self.batch:
                self.batch -= 1
                self._swap(place, self.batch)
        for request in requests:
            self._swap(self._place(request), self.batch)
            if request.next_turn is not None:
                self._start_turn(request, request.next_turn, self.batch)
            self.batch += 1
        return len(requests)

    def _place(self, request: SampleRequest) -> int:
        key = request.keys[0]
        return next(place for place, row in enumerate(self.rows) if row.key == key)

    def _start_turn(self, request: SampleRequest, turn: NextTurn, place: int) -> None:
        """Replace the row by its next turn; tokens that are in the cache are not run again."""
        before = self.rows[place]
        cached = int(self.end_R[place] - self.padding_R[place])
        held = np.concatenate([before.prompt_ids, np.asarray(before.tokens, np.int32)])[:cached]
        common = min(_common_prefix(held, turn.token_ids), len(turn.token_ids) - 1)
        self.end_R[place] = self.padding_R[place] + common
        row = self._row(request, before.key, turn.token_ids, replace(self.decoding, max_new_tokens=turn.max_new_tokens))
        row.pending[:0] = turn.token_ids[common:].tolist()
        self.rows[place] = row
        needed = int(self.padding_R[place]) + len(turn.token_ids) + turn.max_new_tokens
        if needed > self.capacity:
            self._grow(max(needed, int(GROWTH * self.capacity)))

    def _grow(self, capacity: int) -> None:
        self.capacity = capacity
        for layer in self.cache.layers:
            cast("PreallocatedLayer", layer).grow(capacity + SCRATCH_COLUMNS)

    def _swap(self, a: int, b: int) -> None:
        if a == b:
            return
        for layer in self.cache.layers:
            cast("PreallocatedLayer", layer).swap(a, b)
        for array in (self.end_R, self.padding_R, self.stream_R):
            array[[a, b]] = array[[b, a]]
        self.rows[a], self.rows[b] = self.rows[b], self.rows[a]


def _common_prefix(a: np.ndarray, b: np.ndarray) -> int:
    """Return the number of leading tokens that two rows share."""
    length = min(len(a), len(b))
    different = np.flatnonzero(a[:length] != b[:length])
    return int(different[0]) if len(different) else length
