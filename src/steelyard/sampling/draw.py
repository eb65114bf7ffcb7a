"""Drawing one token a row: temperature, top-k, top-p, min-p, in that order, then one uniform searched in the CDF.

One uniform and a search cost a third of ``torch.multinomial``, which draws an exponential for every entry of the
vocabulary, and a uniform that is a function of (sample, position) is what exact resume needs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from steelyard.types import CutRule

CANDIDATES = 512
"""How many of the most likely tokens are looked at first when a cut is asked for."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Tokens drawn, one a row, with their log-prob under the distribution that was really drawn from."""

    token_B: Tensor
    logp_B: Tensor
    kept_BK: Tensor | None = None
    """Kept tokens, the most likely first, when a cut was applied; row b's support is ``kept_BK[b, :count_B[b]]``."""
    count_B: Tensor | None = None


def draw(logits_BV: Tensor, rule: CutRule, uniform_B: Tensor) -> Draw:
    """Draw from softmax(logits / temperature) cut by the rule and renormalised."""
    scaled_BV = logits_BV.to(torch.promote_types(logits_BV.dtype, torch.float32))
    if rule.temperature != 1.0:
        scaled_BV = scaled_BV / rule.temperature
    if not rule.cuts:
        return Draw(*_search(scaled_BV, uniform_B))
    sorted_BK, kept_BK, keep_BK = _keep(scaled_BV, rule)
    place_B, logp_B = _search(sorted_BK.masked_fill(~keep_BK, -torch.inf), uniform_B)
    return Draw(kept_BK.gather(-1, place_B[:, None])[:, 0], logp_B, kept_BK, keep_BK.sum(-1))


def _search(scaled_BV: Tensor, uniform_B: Tensor) -> tuple[Tensor, Tensor]:
    """Inverse-CDF draw: the first place whose cumulative mass passes uniform * total."""
    total_B = scaled_BV.logsumexp(-1)
    cumulative_BV = (scaled_BV - total_B[:, None]).exp_().cumsum_(-1)
    mass_B1 = cumulative_BV[:, -1:]
    target_B1 = uniform_B.to(cumulative_BV)[:, None] * mass_B1
    target_B1 = torch.minimum(target_B1, torch.nextafter(mass_B1, torch.zeros_like(mass_B1)))
    place_B = torch.searchsorted(cumulative_BV, target_B1, right=True)[:, 0]
    return place_B, scaled_BV.gather(-1, place_B[:, None])[:, 0] - total_B


def _keep(scaled_BV: Tensor, rule: CutRule) -> tuple[Tensor, Tensor, Tensor]:
    """The most likely tokens in falling order, their ids, and which of them the rule keeps (a prefix of each row).

    A few hundred candidates nearly always hold everything that top-p and min-p keep; when a row wants more, all of
    the vocabulary is sorted.
    """
    vocabulary = scaled_BV.shape[-1]
    if 0 < rule.top_k < vocabulary:
        top = scaled_BV.topk(rule.top_k, dim=-1)
        return top.values, top.indices, _kept_prefix(top.values, rule, top.values.logsumexp(-1, keepdim=True))
    total_B1 = scaled_BV.logsumexp(-1, keepdim=True)
    top = scaled_BV.topk(min(CANDIDATES, vocabulary), dim=-1)
    keep_BK = _kept_prefix(top.values, rule, total_B1)
    if keep_BK.shape[-1] < vocabulary and bool(keep_BK[:, -1].any()):
        top = scaled_BV.sort(dim=-1, descending=True, stable=True)
        keep_BK = _kept_prefix(top.values, rule, total_B1)
    return top.values, top.indices, keep_BK


def _kept_prefix(sorted_BK: Tensor, rule: CutRule, total_B1: Tensor) -> Tensor:
    """Top-p and min-p on the values that top-k has left, whose log-sum-exp is ``total_B1``."""
    probability_BK = (sorted_BK - total_B1).exp()
    keep_BK = torch.ones_like(sorted_BK, dtype=torch.bool)
    if rule.top_p < 1.0:
        keep_BK &= probability_BK.cumsum(-1) - probability_BK < rule.top_p
    if rule.min_p > 0.0:
        keep_BK &= probability_BK >= rule.min_p * probability_BK[:, :1]
    keep_BK[:, 0] = True
    return keep_BK
