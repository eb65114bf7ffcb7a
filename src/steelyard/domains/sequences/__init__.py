"""Copy, sort, reverse and count short sequences of digits: the smallest domain in which learning is visible."""

from steelyard.domains.sequences.domain import Sequences

__all__ = ["Sequences"]
