"""Constraints and cuts inside vLLM: one logits processor that lets through what the row of each request allows, and
for no request what the policy never samples.

vLLM cuts by min-p before top-p and does not say what a cut has kept; its grammar engines allow other tokens than ours
and know no automata. So constraint and cut are made here, by the code that the local sampler and the learner use, and
the sets they leave are the supports that the learner gets. Temperature and draw are vLLM's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from steelyard.constraints.base import unpack
from steelyard.policies.cuts import kept, scaled
from steelyard.sampling.draw import kept_sets
from steelyard.sampling.vllm.draft import DRAFT, Draft
from steelyard.types import CutRule


@dataclass(slots=True)
class Writing:
    """A draft at its place in vLLM's batch."""

    draft: Draft
    tokens: list[int]
    """All tokens of the request so far; vLLM appends to it."""


class RowMasks(LogitsProcessor):
    """Minus infinity for what a row may not go on with. An engine makes a subclass with drafts of its own."""

    drafts: ClassVar[Mapping[int, Draft]] = {}
    excluded: ClassVar[Sequence[int]] = ()
    """Tokens that no request may sample, with or without a draft."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self.writing: dict[int, Writing] = {}

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow requests to their places in the batch: removed, then added, then moved."""
        if batch_update is None:
            return
        for place in batch_update.removed:
            self.writing.pop(place, None)
        for place, params, _, tokens in batch_update.added:
            self.writing.pop(place, None)
            number = (params.extra_args or {}).get(DRAFT)
            if number is not None:
                self.writing[place] = Writing(self.drafts[number], tokens)
        for here, there, direction in batch_update.moved:
            moved, other = self.writing.pop(here, None), self.writing.pop(there, None)
            if moved is not None:
                self.writing[there] = moved
            if other is not None and direction == MoveDirectionality.SWAP:
                self.writing[here] = other

    def apply(self, logits: Tensor) -> Tensor:
        if self.excluded:
            logits.index_fill_(-1, torch.tensor(self.excluded, device=logits.device), -torch.inf)
        forced: dict[int, int] = {}
        drawing: dict[CutRule, list[int]] = {}
        for place, writing in self.writing.items():
            writing.draft.follow(writing.tokens)
            token = writing.draft.forced(len(writing.tokens))
            if token is None:
                drawing.setdefault(writing.draft.row.decoding.rule, []).append(place)
            else:
                forced[place] = token
        if forced:
            place_F = torch.tensor(list(forced), device=logits.device)
            logits[place_F] = -torch.inf
            logits[place_F, torch.tensor(list(forced.values()), device=logits.device)] = 0.0
        for rule, places in drawing.items():
            self._restrict(logits, rule, places)
        return logits

    def _restrict(self, logits_BV: Tensor, rule: CutRule, places: list[int]) -> None:
        """Leave what constraint and cut leave; a cut is remembered, since it is the support."""
        drafts = [self.writing[place].draft for place in places]
        place_R = torch.tensor(places, device=logits_BV.device)
        logits_RV = logits_BV[place_R]
        blocked_RV = _blocked(drafts, logits_RV)
        if rule.cuts:
            _, token_RK, keep_RK = kept(scaled(logits_RV, rule, blocked_RV), rule)
            for draft, found in zip(drafts, kept_sets(token_RK, keep_RK.sum(-1)), strict=True):
                draft.kept = found
            row_N, token_N = keep_RK.nonzero()[:, 0], token_RK[keep_RK]
            logits_BV[place_R] = -torch.inf
            logits_BV[place_R[row_N], token_N] = logits_RV[row_N, token_N]
        elif blocked_RV is not None:
            logits_BV[place_R] = logits_RV.masked_fill(blocked_RV, -torch.inf)


def _blocked(drafts: Sequence[Draft], logits_RV: Tensor) -> Tensor | None:
    """What the constraint forbids, ``[R, V]``."""
    allowed = [draft.row.allowed for draft in drafts if draft.row.allowed is not None]
    if not allowed:
        return None
    return torch.from_numpy(~unpack(np.stack(allowed), logits_RV.shape[-1])).to(logits_RV.device)
