"""Find a hidden number from the replies "higher" and "lower": the smallest domain with episodes of several turns."""

from steelyard.domains.guess.domain import Guess

__all__ = ["Guess"]
