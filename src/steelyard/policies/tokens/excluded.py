"""Tokens that a policy never samples because they do not appear in its text.

Excluded tokens are outside every support: the policy's head sets their logits to minus infinity, so sampling,
log-probs, entropy and KL all use the distribution without them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from steelyard.errors import PolicyError
from steelyard.special_tokens import INPUT_ROLES
from steelyard.suggest import did_you_mean


def excluded_ids(
    tokenizer: Any, vocabulary: int, end_ids: Collection[int], names: Sequence[str] | None = None
) -> tuple[int, ...]:
    """Return unused ids and the ids of ``names`` (by default, the padding, start and mask tokens).

    A token that ends a sample is never excluded, even if it has another role such as padding.
    """
    id_of: Mapping[str, int] = tokenizer.get_vocab()
    if names is None:
        own: list[int | None] = [getattr(tokenizer, f"{role}_token_id", None) for role in INPUT_ROLES]
        chosen = {token for token in own if token is not None}
    else:
        chosen = {_id_of_name(name, id_of, end_ids) for name in names}
    unused = set(range(vocabulary)).difference(id_of.values())
    excluded = {token for token in chosen | unused if token < vocabulary}.difference(end_ids)
    if vocabulary - len(excluded) < 2:
        raise PolicyError(f"model.excluded_tokens leaves fewer than two of {vocabulary} tokens; exclude fewer")
    return tuple(sorted(excluded))


def describe_excluded(tokenizer: Any, excluded: Sequence[int]) -> list[str]:
    """List the excluded tokens by name and the number of ids without a token."""
    names: list[str | None] = tokenizer.convert_ids_to_tokens(list(excluded))
    known = [name for name in names if name is not None]
    unused = len(names) - len(known)
    return [*known, f"{unused} unused ids"] if unused else known


def _id_of_name(name: str, id_of: Mapping[str, int], end_ids: Collection[int]) -> int:
    token = id_of.get(name)
    if token is None:
        raise PolicyError(
            f"model.excluded_tokens: {name!r} is not a token in this model's vocabulary{did_you_mean(name, id_of)}"
        )
    if token in end_ids:
        raise PolicyError(f"model.excluded_tokens: {name!r} ends a sample and cannot be excluded; remove it")
    return token
