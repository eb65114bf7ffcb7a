"""Where the loop gets its groups: tasks drawn, sampled and verified, step by step."""

from steelyard.training.rollouts.asynchronous import AsynchronousRollouts
from steelyard.training.rollouts.base import RolloutParts, Rollouts, Taken
from steelyard.training.rollouts.synchronous import SynchronousRollouts

__all__ = ["AsynchronousRollouts", "RolloutParts", "Rollouts", "SynchronousRollouts", "Taken"]
