"""Constraints and cuts inside vLLM: a logits processor that masks the tokens ruled out by a request's constraint, its
cut rule or the policy's excluded tokens.

vLLM applies min-p before top-p and does not report which tokens a cut keeps; its grammar engines allow different tokens
from ours and do not support automata. The constraint and the cut are therefore computed here, with the same code as in
the local sampler and the learner, and the remaining sets become the learner's supports. vLLM applies the temperature
and draws the token.
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
from steelyard.sampling.vllm.tracked_sample import TRACKED_KEY, TrackedSample
from steelyard.types import CutRule


@dataclass(slots=True)
class BatchEntry:
    """A tracked sample at its position in vLLM's batch."""

    tracked: TrackedSample
    tokens: list[int]
    """Tokens of the request so far; vLLM appends to this list."""


class RowMasks(LogitsProcessor):
    """Sets the logits of disallowed tokens to minus infinity. Each engine creates a subclass with its own samples."""

    tracked_samples: ClassVar[Mapping[int, TrackedSample]] = {}
    excluded: ClassVar[Sequence[int]] = ()
    """Tokens that no request may sample, tracked or not."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self.entries: dict[int, BatchEntry] = {}

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Update the batch positions of requests: removed, then added, then moved."""
        if batch_update is None:
            return
        for place in batch_update.removed:
            self.entries.pop(place, None)
        for place, params, _, tokens in batch_update.added:
            self.entries.pop(place, None)
            number = (params.extra_args or {}).get(TRACKED_KEY)
            if number is not None:
                self.entries[place] = BatchEntry(self.tracked_samples[number], tokens)
        for here, there, direction in batch_update.moved:
            moved, other = self.entries.pop(here, None), self.entries.pop(there, None)
            if moved is not None:
                self.entries[there] = moved
            if other is not None and direction == MoveDirectionality.SWAP:
                self.entries[here] = other

    def apply(self, logits: Tensor) -> Tensor:
        if self.excluded:
            logits.index_fill_(-1, torch.tensor(self.excluded, device=logits.device), -torch.inf)
        forced: dict[int, int] = {}
        drawing: dict[CutRule, list[int]] = {}
        for place, entry in self.entries.items():
            entry.tracked.follow(entry.tokens)
            token = entry.tracked.forced(len(entry.tokens))
            if token is None:
                drawing.setdefault(entry.tracked.row.decoding.rule, []).append(place)
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
        """Apply the constraint and the cut; the cut is stored because it is the support."""
        tracked_samples = [self.entries[place].tracked for place in places]
        place_R = torch.tensor(places, device=logits_BV.device)
        logits_RV = logits_BV[place_R]
        blocked_RV = _blocked(tracked_samples, logits_RV)
        if rule.cuts:
            _, token_RK, keep_RK = kept(scaled(logits_RV, rule, blocked_RV), rule)
            for tracked, found in zip(tracked_samples, kept_sets(token_RK, keep_RK.sum(-1)), strict=True):
                tracked.kept = found
            row_N, token_N = keep_RK.nonzero()[:, 0], token_RK[keep_RK]
            logits_BV[place_R] = -torch.inf
            logits_BV[place_R[row_N], token_N] = logits_RV[row_N, token_N]
        elif blocked_RV is not None:
            logits_BV[place_R] = logits_RV.masked_fill(blocked_RV, -torch.inf)


def _blocked(tracked_samples: Sequence[TrackedSample], logits_RV: Tensor) -> Tensor | None:
    """Return a mask ``[R, V]`` of the tokens that the constraint forbids."""
    allowed = [tracked.row.allowed for tracked in tracked_samples if tracked.row.allowed is not None]
    if not allowed:
        return None
    return torch.from_numpy(~unpack(np.stack(allowed), logits_RV.shape[-1])).to(logits_RV.device)
