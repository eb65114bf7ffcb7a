"""Copy, sort, reverse and count short sequences of digits: the smallest family on which a policy visibly learns."""

from steelyard.domains.sequences.domain import Sequences

__all__ = ["Sequences"]
