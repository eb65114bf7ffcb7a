"""Rules for sampling and credit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from steelyard.config.problems import Problem
from steelyard.config.sampling import ADVANTAGES
from steelyard.defaults import SMALLEST_K

if TYPE_CHECKING:
    from steelyard.config.sections import Sections


def groups(config: Sections) -> Iterator[Problem]:
    sampling, credit = config.sampling, config.credit
    if credit.min_scored > sampling.group_size:
        reason = f"must not exceed sampling.group_size ({sampling.group_size}); lower it"
        yield Problem("credit.min_scored", credit.min_scored, reason)


def stale_cuts(config: Sections) -> Iterator[Problem]:
    sampling = config.sampling
    cuts = sampling.top_k > 0 or sampling.top_p < 1 or sampling.min_p > 0
    if sampling.staleness and cuts and sampling.supports == "recomputed":
        reason = (
            "recomputing a top-k, top-p or min-p cut needs the weights that sampled, which are gone for stale samples; "
            "use supports = 'stored', no cut, or staleness = 0"
        )
        yield Problem("sampling.supports", sampling.supports, reason)


def estimator_k(config: Sections) -> Iterator[Problem]:
    advantage, k, group_size = config.credit.advantage, config.credit.k, config.sampling.group_size
    needs_k = advantage in SMALLEST_K
    if needs_k and k is None:
        yield Problem("credit.k", None, f"is required by advantage = '{advantage}'")
    if k is None:
        return
    if advantage in ADVANTAGES and not needs_k:
        yield Problem(
            "credit.k", k, f"advantage = '{advantage}' does not use k; remove it, or use {' or '.join(SMALLEST_K)}"
        )
    if k > group_size:
        yield Problem("credit.k", k, f"must not exceed sampling.group_size ({group_size}); lower k or raise group_size")
    if k < SMALLEST_K.get(advantage, 1):
        yield Problem(
            "credit.k", k, "must be at least 2 for max_at_k; max@1 is the plain mean, which is advantage = 'rloo'"
        )


def rewards_of_pass_at_k(config: Sections) -> Iterator[Problem]:
    """Reject settings that produce rewards other than 0 and 1, because they would stop the run midway."""
    credit, kl, floor = config.credit, config.loss.kl, config.verify.floor
    if credit.advantage != "pass_at_k":
        return
    reason = "advantage = 'pass_at_k' needs rewards of 0 or 1, and this gives others; use advantage = 'max_at_k'"
    if not config.has_domain and floor not in (None, 0, 1):
        yield Problem("verify.floor", floor, reason)
    if credit.truncated == "penalise" and credit.truncation_penalty != 0:
        yield Problem("credit.truncated", credit.truncated, f"{reason}, or truncated = 'mask'")
    if credit.length_penalty is not None:
        yield Problem("credit.length_penalty.weight", credit.length_penalty.weight, reason)
    if kl.active and kl.placement == "reward":
        yield Problem("loss.kl.placement", kl.placement, f"{reason}, or placement = 'loss'")


def truncation(config: Sections) -> Iterator[Problem]:
    credit = config.credit
    if credit.truncation_penalty is not None and credit.truncated != "penalise":
        reason = f"applies only to truncated = 'penalise', but truncated is '{credit.truncated}'; remove it"
        yield Problem("credit.truncation_penalty", credit.truncation_penalty, reason)


def lengths(config: Sections) -> Iterator[Problem]:
    penalty, longest = config.credit.length_penalty, config.sampling.max_new_tokens
    if penalty is None:
        return
    limit = longest if penalty.limit is None else penalty.limit
    if limit > longest:
        reason = f"must not exceed sampling.max_new_tokens ({longest}); lower it"
        yield Problem("credit.length_penalty.limit", limit, reason)
    if penalty.start >= limit:
        reason = f"must be smaller than credit.length_penalty.limit ({limit}); lower it"
        yield Problem("credit.length_penalty.start", penalty.start, reason)
