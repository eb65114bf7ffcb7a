"""What a constraint is: a small state machine that is followed along each sample.

A constraint is part of the policy. At every step it says which tokens may come; the sampler draws from the model's
distribution renormalised on them, and the learner scores on the same set. It may depend on anything that can be known
of the partial sample (what stands already, what was used up), so it is more than a context-free grammar.

Nothing here imports torch: a constraint can be followed in a worker process or on a machine without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from steelyard.types import Task

Bits = NDArray[np.uint8]
"""A set of tokens, packed: token ``t`` is in it if bit ``t % 8`` (the lowest first) of byte ``t // 8`` is set."""


@runtime_checkable
class Walk(Protocol):
    """A constraint followed along one sample: plain data inside, cheap to copy.

    ``left`` is how many tokens still fit into the sample, the end token among them. A walk that is told so keeps a
    way to an end open: no token is allowed after which the shortest end would not fit.
    """

    def allowed(self, left: int) -> Bits:
        """The tokens that may come now, the end token among them where the sample may end. Not to be written to.

        The empty set means a dead end, which only a constraint without ``shortest_end`` can run into.
        """
        ...

    def forced(self, left: int) -> Sequence[int]:
        """The tokens that come next without a choice, one or several; empty where something is to be decided."""
        ...

    def advance(self, token: int) -> None:
        """Take a token; a ``ConstraintError`` if it was not allowed. After the end token nothing more may come."""
        ...

    def may_end(self) -> bool:
        """Whether the end token may come now."""
        ...

    def shortest_end(self) -> int | None:
        """The fewest tokens that lead to an end, the end token among them (1 where the sample may end now).

        An automaton over characters counts a token for each character. None: not known (a text grammar).
        """
        ...

    def copy(self) -> Walk:
        """A walk at the same place that goes on by itself."""
        ...


@runtime_checkable
class Constraint(Protocol):
    """What samples must look like; one object serves all samples of a run."""

    @property
    def vocabulary(self) -> int:
        """Size of the vocabulary that the sets of tokens are over."""
        ...

    @property
    def canonical_runs(self) -> bool:
        """Whether a run of characters that must come is written with the tokenizer's own tokens for it.

        Masking step by step allows every way of cutting the run into tokens, which is another policy. So this belongs
        to the constraint and is the same wherever it is followed.
        """
        ...

    def begin(self, task: Task) -> Walk:
        """A walk at the beginning of a sample for this task."""
        ...

    def check_budget(self, task: Task, tokens: int) -> None:
        """Raise a ``ConstraintError`` with the way out if no sample of that many tokens (end included) can exist."""
        ...


def pack(tokens: Sequence[int] | NDArray[np.integer], vocabulary: int) -> Bits:
    """Packed set of some tokens."""
    member_V = np.zeros(vocabulary, np.bool_)
    member_V[np.asarray(tokens, np.int64)] = True
    return np.packbits(member_V, bitorder="little")


def unpack(bits: Bits, vocabulary: int) -> NDArray[np.bool_]:
    """Membership of each token, ``[V]`` (or ``[..., V]`` for several sets stacked)."""
    return np.unpackbits(bits, axis=-1, count=vocabulary, bitorder="little").view(np.bool_)


def members(bits: Bits) -> NDArray[np.int32]:
    """The tokens of a set, in rising order."""
    return np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int32)


def count(bits: Bits) -> int:
    """How many tokens a set has."""
    return int(np.bitwise_count(bits).sum())
