"""Runs any verifier inline, including weighted ones, with one attempt per item, so failures are not retried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from steelyard.types import Verdict
from steelyard.verification import AnyVerifier, Blame, InlinePool, Item, pool_for

ONE_TRY = Blame(tries=1)


def verdicts_of(verifier: AnyVerifier, items: Sequence[Item]) -> list[Verdict]:
    """Return one verdict per item, in order; items may share a key."""
    keys = [item.sample.key._replace(sample=number) for number, item in enumerate(items)]
    numbered = [replace(item, sample=replace(item.sample, key=key)) for item, key in zip(items, keys, strict=True)]
    pool = pool_for(verifier, lambda part: InlinePool(part, ONE_TRY))
    pool.submit(numbered)
    found = dict(pool.completed(wait=True))
    return [found[key] for key in keys]
