"""Batched generation with the policy's own transformers model.

Each prompt is processed once and its cache is copied to every sample of its group. Finished rows leave the batch.
Forced tokens are processed together with the token before them. Each draw uses one uniform keyed by (seed, step, slot,
attempt, sample, position).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.sampling.cache import Columns, spread_prompts
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
        rows = [(request, index) for request in requests for index in range(request.count)]
        self.policy.sample_mode()
        for start in range(0, len(rows), self.max_rows):
            yield from _Wave(self, rows[start : start + self.max_rows], decoding).run()


class _Wave:
    """Rows that are decoded together until the last one finishes."""

    def __init__(self, sampler: LocalSampler, rows: Sequence[tuple[SampleRequest, int]], decoding: Decoding) -> None:
        self.sampler, self.policy, self.decoding = sampler, sampler.policy, decoding
        prompts: dict[tuple[int, int, int], int] = {}
        self.prompt_ids: list[np.ndarray] = []
        self.rows: list[PartialSample] = []
        self.prompt_of_row: list[int] = []
        ends, constraint = frozenset(self.policy.end_ids), self.policy.constraint
        for request, index in rows:
            place = (request.step, request.slot, request.attempt)
            if place not in prompts:
                prompts[place] = len(self.prompt_ids)
                self.prompt_ids.append(self._encode(request))
            self.prompt_of_row.append(prompts[place])
            key, ids = SampleKey(*place, index), self.prompt_ids[prompts[place]]
            self.rows.append(PartialSample(request, key, ids, decoding, ends, constraint, self.policy.vocabulary))
        self.stream_B = stream(sampler.seed, *np.asarray([row.key for row in self.rows]).T)

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

    def run(self) -> Iterator[Sample]:
        """Yield samples as they finish. No ``no_grad`` context is active while the caller runs."""
        hidden_BD = self._prefill()
        while True:
            ready = [place for place, row in enumerate(self.rows) if row.ready]
            if ready:
                self._draw(hidden_BD, ready)
            for row in self._newly_finished():
                yield row.finish(self.sampler.offsets, self.sampler.version)
            if all(row.finished for row in self.rows):
                return
            self._compact()
            hidden_BD = self._feed()

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
        scratch = 1  # a column for padding tokens beyond the capacity
        self.cache, self.columns = spread_prompts(out.past_key_values, row_B, self.capacity + scratch)
        self.filled = width
        self.runs = self.columns is not None and self.policy.attention_kernel in MASKED_KERNELS
        self.padding_B = width - np.asarray([len(row.prompt_ids) for row in self.rows])
        self.end_B = np.full(len(self.rows), width)
        self.yielded = [False] * len(self.rows)
        return out.last_hidden_state[:, -1][row_B]

    @torch.no_grad()
    def _feed(self) -> Tensor:
        """Run one or all pending tokens of every row and return the hidden state after the last token."""
        unfinished = [place for place, row in enumerate(self.rows) if not row.finished]
        count_B = np.zeros(len(self.rows), np.int64)
        count_B[unfinished] = self._feed_counts(unfinished)
        width = int(count_B.max())
        token_BT = np.full((len(self.rows), width), self.policy.pad_id)
        for place in unfinished:
            row, count = self.rows[place], count_B[place]
            token_BT[place, :count] = row.pending[:count]
            del row.pending[:count]
        column_BT = self.end_B[:, None] + np.arange(width)
        aligned = {(count_B[place], self.end_B[place]) for place in unfinished} == {(width, self.filled)}
        mask = self._shared_mask(width) if aligned or self.columns is None else self._own_mask(self.columns, column_BT)
        hidden_BTD = self._forward(token_BT, column_BT, mask)
        self.end_B = self.end_B + count_B
        self.filled += width
        if self.columns is not None:
            self.columns.filled = self.filled = self.columns.end
        last_B = torch.from_numpy(np.maximum(count_B - 1, 0)).to(hidden_BTD.device)
        return hidden_BTD[torch.arange(len(last_B), device=last_B.device), last_B]

    def _feed_counts(self, unfinished: list[int]) -> list[int]:
        """Choose how many pending tokens to run for each row."""
        pending = [len(self.rows[place].pending) for place in unfinished]
        if not self.runs:
            return [1] * len(unfinished)
        aligned = len(set(self.end_B[unfinished].tolist())) == 1
        if aligned and max(pending) < ALIGNED_RUN_LIMIT and sum(pending) <= ALIGNED_MEAN_LIMIT * len(pending):
            return [min(pending)] * len(unfinished)
        return pending

    def _forward(self, token_BT: np.ndarray, column_BT: np.ndarray, mask: Tensor | None) -> Tensor:
        device = self.policy.device
        position_BT = np.minimum(column_BT, self.capacity - 1) - self.padding_B[:, None]
        with self.policy.precision():
            out = self.policy.body(
                input_ids=torch.from_numpy(token_BT).to(device),
                attention_mask=mask,
                position_ids=torch.from_numpy(position_BT).to(device),
                past_key_values=self.cache,
                use_cache=True,
            )
        return out.last_hidden_state

    def _shared_mask(self, width: int) -> Tensor | None:
        """Return the mask for rows that write the same columns: only the padding before short prompts is hidden."""
        if self.columns is not None:
            self.columns.place_BT, self.columns.end = None, self.filled + width
        if not self.ragged:
            return None
        seen_BL = np.arange(self.filled + width)[None, :] >= self.padding_B[:, None]
        return torch.from_numpy(seen_BL).to(self.policy.device).long()

    def _own_mask(self, columns: Columns, column_BT: np.ndarray) -> Tensor:
        """Return the mask for rows that write at their own ends: a token attends to its row up to itself."""
        place_BT = np.minimum(column_BT, self.capacity)
        end = max(self.filled, int(place_BT.max()) + 1)
        columns.place_BT, columns.end = torch.from_numpy(place_BT).to(self.policy.device), end
        column_L = np.arange(end)
        seen_BTL = (column_L <= column_BT[:, :, None]) & (column_L >= self.padding_B[:, None, None])
        seen = torch.from_numpy(seen_BTL).to(self.policy.device)
        mask = torch.zeros(seen.shape, dtype=columns.dtype, device=seen.device)
        return mask.masked_fill_(~seen, torch.finfo(mask.dtype).min)[:, None]

    # --- the rows ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _draw(self, hidden_BD: Tensor, ready: list[int]) -> None:
        """Draw one token for each row without pending tokens."""
        rows = [self.rows[place] for place in ready]
        if len(ready) < len(self.rows):
            hidden_BD = hidden_BD[torch.tensor(ready, device=hidden_BD.device)]
        written = np.asarray([len(row.tokens) for row in rows])
        uniform_B = torch.from_numpy(uniform(self.stream_B[ready], written)).to(hidden_BD.device)
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
        for place, row in enumerate(self.rows):
            if row.finished and not self.yielded[place]:
                self.yielded[place] = True
                yield row

    def _compact(self) -> None:
        """Remove finished rows from the batch once there are enough of them."""
        kept = [place for place, row in enumerate(self.rows) if not row.finished]
        if len(kept) > COMPACT_BELOW * len(self.rows):
            return
        self.cache.batch_select_indices(torch.tensor(kept, device=self.policy.device))
        self.end_B, self.padding_B = self.end_B[kept], self.padding_B[kept]
        self.rows, self.stream_B = [self.rows[place] for place in kept], self.stream_B[kept]
        self.yielded = [False] * len(kept)
