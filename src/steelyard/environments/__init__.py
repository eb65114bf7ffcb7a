"""Environments: multi-turn tasks in which the policy acts, reads a reply and acts again."""

from steelyard.environments.base import Answer, Environment, Session, SessionEnvironment, Turns, as_environment
from steelyard.environments.running import EnvironmentVerifier

__all__ = [
    "Answer",
    "Environment",
    "EnvironmentVerifier",
    "Session",
    "SessionEnvironment",
    "Turns",
    "as_environment",
]
