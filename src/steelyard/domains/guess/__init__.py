"""Find a hidden number from the replies "higher" and "lower": the simplest domain with multi-turn episodes."""

from steelyard.domains.guess.domain import Guess

__all__ = ["Guess"]
