"""The constraint interface: state machines that follow each sample.

A constraint is part of the policy. At every step the constraint defines the allowed tokens; the sampler draws from the
model's distribution renormalised over them, and the learner scores over the same set. A constraint may depend on
anything in the partial sample, such as occupied space or remaining supplies, so it is more general than a context-free
grammar.

This module does not import torch, so constraints also work in processes and on machines without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from steelyard.types import Task

Bits = NDArray[np.uint8]
"""A set of tokens as packed bits: token ``t`` is a member if bit ``t % 8`` (lowest first) of byte ``t // 8`` is set."""


@runtime_checkable
class Walk(Protocol):
    """The state of a constraint for one sample: plain data that is cheap to copy.

    ``left`` is the number of tokens that still fit in the sample, including the end token. A walk always keeps an end
    within reach: it disallows tokens after which even the shortest end would not fit.
    """

    def allowed(self, left: int) -> Bits:
        """Return the allowed tokens, including the end token if the sample may end. The array is read-only.

        An empty set is a dead end, which only a constraint without ``shortest_end`` can reach.
        """
        ...

    def forced(self, left: int) -> Sequence[int]:
        """Return the next forced tokens, or an empty sequence if there is a choice."""
        ...

    def advance(self, token: int) -> None:
        """Advance by a token; raise ``ConstraintError`` if it is not allowed. No token is allowed after the end."""
        ...

    def may_end(self) -> bool:
        """Return whether the end token is allowed now."""
        ...

    def shortest_end(self) -> int | None:
        """Return the minimum number of tokens to an end, including the end token (1 if the sample may end now).

        An automaton over characters counts one token per character. Returns None if unknown, as for text grammars.
        """
        ...

    def copy(self) -> Walk:
        """Return an independent walk in the same state."""
        ...


@runtime_checkable
class Constraint(Protocol):
    """Restricts samples; one object serves all samples in a run."""

    @property
    def vocabulary(self) -> int:
        """Size of the vocabulary."""
        ...

    @property
    def canonical_tokens(self) -> bool:
        """Whether a forced run of characters uses the tokenizer's own tokens.

        Masking token by token allows every tokenization of the run, which is a different policy. The setting therefore
        belongs to the constraint, so that the sampler and the learner agree on it.
        """
        ...

    def begin(self, task: Task) -> Walk:
        """Return a walk positioned at the start of a sample for this task."""
        ...

    def check_budget(self, task: Task, tokens: int) -> None:
        """Raise ``ConstraintError`` with a suggestion if no sample fits in ``tokens`` tokens, end token included."""
        ...


def pack(tokens: Sequence[int] | NDArray[np.integer], vocabulary: int) -> Bits:
    """Return the packed set of the given tokens."""
    member_V = np.zeros(vocabulary, np.bool_)
    member_V[np.asarray(tokens, np.int64)] = True
    return np.packbits(member_V, bitorder="little")


def unpack(bits: Bits, vocabulary: int) -> NDArray[np.bool_]:
    """Return a membership mask ``[V]`` (``[..., V]`` for stacked sets)."""
    return np.unpackbits(bits, axis=-1, count=vocabulary, bitorder="little").view(np.bool_)


def members(bits: Bits) -> NDArray[np.int32]:
    """Return the tokens of a set in ascending order."""
    return np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int32)


def count(bits: Bits) -> int:
    """Return the number of tokens in a set."""
    return int(np.bitwise_count(bits).sum())
