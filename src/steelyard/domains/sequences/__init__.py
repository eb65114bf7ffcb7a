"""Copy, sort, reverse and count short sequences of digits: the simplest domain that shows a policy learning."""

from steelyard.domains.sequences.domain import Sequences

__all__ = ["Sequences"]
