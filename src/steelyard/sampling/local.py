"""Batched generation on the policy's own transformers model.

A prompt is computed once and its cache handed to every sample of its group; finished rows leave the batch; each draw
takes one uniform keyed by (seed, step, slot, attempt, sample, position).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from steelyard.errors import PolicyError
from steelyard.policies.batch import pad_rows
from steelyard.policies.causal import CausalPolicy
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.sampling.cache import spread_prompts
from steelyard.sampling.draw import Draw, draw
from steelyard.sampling.randomness import stream, uniform
from steelyard.types import Decisions, FinishReason, Sample, SampleKey, SupportTable

COMPACT_BELOW = 0.875
"""Rows are moved together once fewer than this share of them is still being written."""


class LocalSampler:
    """Samples from a ``CausalPolicy`` in this process; new weights are there as soon as the learner has set them."""

    def __init__(self, policy: CausalPolicy, *, seed: int, max_rows: int = 256) -> None:
        self.policy = policy
        self.seed = seed
        self.max_rows = max_rows
        self.version = 0

    def publish(self, version: int) -> None:
        self.version = version

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        rows = [(request, index) for request in requests for index in range(request.count)]
        self.policy.sample_mode()
        for start in range(0, len(rows), self.max_rows):
            yield from _Wave(self, rows[start : start + self.max_rows], decoding).run()


class _Row:
    """A sample being written."""

    def __init__(self, key: SampleKey, prompt_ids: np.ndarray) -> None:
        self.key = key
        self.prompt_ids = prompt_ids
        self.tokens: list[int] = []
        self.logp: list[float] = []
        self.place: list[int] = []
        self.support: list[np.ndarray] = []

    def take(self, token: int, logp: float, support: np.ndarray | None) -> None:
        if support is None or len(support) > 1:  # a forced token is no decision
            self.place.append(len(self.tokens))
            self.logp.append(logp)
            if support is not None:
                self.support.append(support)
        self.tokens.append(token)

    def finish(self, reason: FinishReason, text: str, decoding: Decoding, version: int) -> Sample:
        cut = decoding.rule.cuts
        decisions = Decisions(
            position_N=np.asarray(self.place, np.int32) + len(self.prompt_ids),
            forward_N=np.asarray(self.place, np.int32),
            logp_N=np.asarray(self.logp, np.float32),
            rule=decoding.rule,
            support_N=np.arange(len(self.place), dtype=np.int32) if cut else None,
            supports=SupportTable.of(self.support) if cut else None,
        )
        ids = np.concatenate([self.prompt_ids, np.asarray(self.tokens, np.int32)])
        return Sample(self.key, ids, len(self.prompt_ids), text, reason, decisions, version)


class _Wave:
    """Rows decoded together, from their prompts to the last end."""

    def __init__(self, sampler: LocalSampler, rows: Sequence[tuple[SampleRequest, int]], decoding: Decoding) -> None:
        self.sampler, self.policy, self.decoding = sampler, sampler.policy, decoding
        prompts: dict[tuple[int, int, int], int] = {}
        self.prompt_ids: list[np.ndarray] = []
        self.rows: list[_Row] = []
        self.prompt_of_row: list[int] = []
        for request, index in rows:
            place = (request.step, request.slot, request.attempt)
            if place not in prompts:
                prompts[place] = len(self.prompt_ids)
                self.prompt_ids.append(self._encode(request))
            self.prompt_of_row.append(prompts[place])
            key = SampleKey(request.step, request.slot, request.attempt, index)
            self.rows.append(_Row(key, self.prompt_ids[prompts[place]]))
        keys = np.asarray([row.key for row in self.rows]).T
        self.streams = stream(sampler.seed, *keys)
        self.end_ids = np.asarray(self.policy.end_ids)

    def _encode(self, request: SampleRequest) -> np.ndarray:
        ids = self.policy.encode(request.task.prompt)
        limit = getattr(self.policy.model.config, "max_position_embeddings", None)
        if limit is not None and len(ids) + self.decoding.max_new_tokens > limit:
            raise PolicyError(
                f"task {request.task.id}: a prompt of {len(ids)} tokens and {self.decoding.max_new_tokens} new ones "
                f"pass the model's {limit} positions; shorten the prompt or lower sampling.max_new_tokens"
            )
        return ids

    def run(self) -> Iterator[Sample]:
        """Yield samples as they end. No gradient context is held while the caller works."""
        hidden_BD = self._prefill()
        for step in range(self.decoding.max_new_tokens):
            with torch.no_grad():
                drawn = self._draw(hidden_BD, step)
            finished = self._take(drawn, last=step + 1 == self.decoding.max_new_tokens)
            for place in finished:
                yield self._finish(place)
            if len(finished) == len(self.alive):
                return
            self._drop(finished)
            token_B = self._compact(drawn.token_B)
            with torch.no_grad():
                hidden_BD = self._step(token_B)

    @torch.no_grad()
    def _prefill(self) -> Tensor:
        """Run each prompt once and spread cache and last hidden state over the rows that continue it."""
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
        capacity = width + self.decoding.max_new_tokens
        self.cache = spread_prompts(out.past_key_values, row_B, capacity)
        self.position_B = length_P[row_B] - 1
        self.mask_BT = torch.ones(len(row_B), capacity, dtype=torch.long, device=device)
        self.mask_BT[:, :width] = mask_PT[row_B]
        self.filled = width
        self.alive = list(range(len(self.rows)))
        self.batch_rows = list(range(len(self.rows)))
        return out.last_hidden_state[:, -1][row_B]

    def _draw(self, hidden_BD: Tensor, step: int) -> Draw:
        uniform_B = uniform(self.streams[self.batch_rows], step)
        return draw(self.policy.head(hidden_BD), self.decoding.rule, torch.from_numpy(uniform_B).to(hidden_BD.device))

    def _take(self, drawn: Draw, *, last: bool) -> list[int]:
        """Write the drawn tokens into their rows; return the rows that end here."""
        tokens, logps = drawn.token_B.tolist(), drawn.logp_B.tolist()
        supports = _supports(drawn, len(tokens))
        place_of = {row: place for place, row in enumerate(self.batch_rows)}
        finished: list[int] = []
        for row in self.alive:
            place = place_of[row]
            self.rows[row].take(tokens[place], logps[place], supports[place])
            if last or tokens[place] in self.end_ids:
                finished.append(row)
        return finished

    def _finish(self, place: int) -> Sample:
        row = self.rows[place]
        reason: FinishReason = "stop" if row.tokens[-1] in self.end_ids else "length"
        return row.finish(reason, self.policy.decode(row.tokens), self.decoding, self.sampler.version)

    def _drop(self, finished: list[int]) -> None:
        if finished:
            gone = set(finished)
            self.alive = [row for row in self.alive if row not in gone]

    def _compact(self, token_B: Tensor) -> Tensor:
        """Leave finished rows out of the batch once enough of them have gathered."""
        if len(self.alive) > COMPACT_BELOW * len(self.batch_rows):
            return token_B
        still = set(self.alive)
        kept = [place for place, row in enumerate(self.batch_rows) if row in still]
        kept_B = torch.tensor(kept, device=token_B.device)
        self.cache.batch_select_indices(kept_B)
        self.position_B, self.mask_BT = self.position_B[kept_B], self.mask_BT[kept_B]
        self.batch_rows = [self.batch_rows[place] for place in kept]
        return token_B[kept_B]

    def _step(self, token_B: Tensor) -> Tensor:
        self.position_B = self.position_B + 1
        self.filled += 1
        with self.policy.precision():
            out = self.policy.body(
                input_ids=token_B[:, None],
                attention_mask=self.mask_BT[:, : self.filled] if self.ragged else None,
                position_ids=self.position_B[:, None],
                past_key_values=self.cache,
                use_cache=True,
            )
        return out.last_hidden_state[:, -1]


def _supports(drawn: Draw, rows: int) -> list[np.ndarray | None]:
    if drawn.kept_BK is None or drawn.count_B is None:
        return [None] * rows
    counts = drawn.count_B.tolist()
    kept = drawn.kept_BK[:, : max(counts)].to(torch.int32).cpu().numpy()
    return [kept[row, : counts[row]].copy() for row in range(rows)]
