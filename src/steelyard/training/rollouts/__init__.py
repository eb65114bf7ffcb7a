"""Rollouts: draw, sample and verify the groups that the loop trains on."""

from steelyard.training.rollouts.asynchronous import AsynchronousRollouts
from steelyard.training.rollouts.base import RolloutParts, Rollouts, StepGroups
from steelyard.training.rollouts.synchronous import SynchronousRollouts

__all__ = ["AsynchronousRollouts", "RolloutParts", "Rollouts", "StepGroups", "SynchronousRollouts"]
