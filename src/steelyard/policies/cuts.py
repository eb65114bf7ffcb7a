"""Top-k, top-p and min-p: which tokens a cut rule keeps. Samplers apply the rule, and the learner can recompute it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from steelyard.types import CutRule

CANDIDATES = 512
"""Number of most likely tokens to sort first when a rule applies a cut."""


def scaled(logits: Tensor, rule: CutRule, blocked: Tensor | None = None) -> Tensor:
    """Divide logits by the temperature in at least float32, with minus infinity for blocked tokens."""
    values = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if rule.temperature != 1.0:
        values = values / rule.temperature
    return values if blocked is None else values.masked_fill(blocked, -torch.inf)


def kept(scaled_BV: Tensor, rule: CutRule) -> tuple[Tensor, Tensor, Tensor]:
    """Return the most likely tokens' scaled logits in descending order, their ids, and which of them the rule keeps (a
    prefix of each row; the rest of a row may be padding).

    A few hundred candidates nearly always contain everything that top-p and min-p keep; rows that keep more are sorted
    over the complete vocabulary. Tokens at minus infinity (blocked by a constraint) are never kept.
    """
    vocabulary = scaled_BV.shape[-1]
    if 0 < rule.top_k < vocabulary:
        top = scaled_BV.topk(rule.top_k, dim=-1)
        return top.values, top.indices, _kept_prefix(top.values, rule, top.values.logsumexp(-1, keepdim=True))
    total_B1 = scaled_BV.logsumexp(-1, keepdim=True)
    top = scaled_BV.topk(min(CANDIDATES, vocabulary), dim=-1)
    keep_BK = _kept_prefix(top.values, rule, total_B1)
    wide_W = keep_BK[:, -1].nonzero()[:, 0]
    if keep_BK.shape[-1] == vocabulary or not len(wide_W):
        return top.values, top.indices, keep_BK
    wide = scaled_BV[wide_W].sort(dim=-1, descending=True, stable=True)
    keep_WV = _kept_prefix(wide.values, rule, total_B1[wide_W])
    widest = int(keep_WV.sum(-1).max())
    both = ((top.values, wide.values), (top.indices, wide.indices), (keep_BK, keep_WV))
    value_BK, token_BK, keep_BK = (_widened(narrow, wide_W, full, widest) for narrow, full in both)
    return value_BK, token_BK, keep_BK


def _widened(narrow_BK: Tensor, wide_W: Tensor, full_WV: Tensor, width: int) -> Tensor:
    """Pad the candidates of narrow rows to ``width`` and insert the wide rows; the padding is not kept."""
    wider_BK = functional.pad(narrow_BK, (0, max(0, width - narrow_BK.shape[-1])))
    wider_BK[wide_W] = full_WV[:, : wider_BK.shape[-1]]
    return wider_BK


def _kept_prefix(sorted_BK: Tensor, rule: CutRule, total_B1: Tensor) -> Tensor:
    """Apply top-p and min-p to the values left by top-k; ``total_B1`` is their log-sum-exp."""
    probability_BK = (sorted_BK - total_B1).exp()
    keep_BK = sorted_BK > -torch.inf
    if rule.top_p < 1.0:
        keep_BK &= probability_BK.cumsum(-1) - probability_BK < rule.top_p
    if rule.min_p > 0.0:
        keep_BK &= probability_BK >= rule.min_p * probability_BK[:, :1]
    keep_BK[:, 0] = True
    return keep_BK
