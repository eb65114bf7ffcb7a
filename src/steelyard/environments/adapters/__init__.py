"""Environments from other packages: TRL, verifiers, TextArena and Gymnasium.

Pass an adapter as ``verifier``; its package is imported in the workers. ``tasks(count)`` builds tasks if there is no
dataset.
"""

from steelyard.environments.adapters.domain import EnvironmentDomain
from steelyard.environments.adapters.gymnasium import GymnasiumEnvironment
from steelyard.environments.adapters.textarena import TextArenaEnvironment
from steelyard.environments.adapters.trl import TRLEnvironment
from steelyard.environments.adapters.verifiers import VerifiersEnvironment

__all__ = [
    "EnvironmentDomain",
    "GymnasiumEnvironment",
    "TRLEnvironment",
    "TextArenaEnvironment",
    "VerifiersEnvironment",
]
