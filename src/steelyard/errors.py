"""Exceptions, one class per subsystem. Every message names the problem, the value and the solution."""

from __future__ import annotations


class SteelyardError(Exception):
    """Base class of all errors that a user can cause or fix."""


class ConfigError(SteelyardError):
    """The configuration is invalid; the message names the key and the reason."""


class DataError(SteelyardError):
    """Tasks or other input files cannot be read or used."""


class VerifierError(SteelyardError):
    """The verifier cannot be loaded, or it failed for every sample of a step."""


class SandboxError(SteelyardError):
    """The sandbox cannot run the code: the requested isolation level or the program is not available."""


class PolicyError(SteelyardError):
    """The model cannot be loaded, or cannot be used as configured."""


class ConstraintError(SteelyardError):
    """A constraint cannot be built or satisfied, or a token violates it."""


class CheckpointError(SteelyardError):
    """A checkpoint is missing, incomplete, or belongs to another run."""


class TrainingError(SteelyardError):
    """Training cannot continue, for example after too many non-finite steps in a row."""


class StoppedError(SteelyardError):
    """A signal stopped the run before its first training step; the progress is saved."""


class LostLearnerError(TrainingError):
    """A learner process was lost; the run can continue from its last checkpoint."""


class TrustError(SteelyardError):
    """A run folder or recipe names code that the user has not agreed to execute."""


class MissingExtraError(SteelyardError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"missing optional package for {feature}: pip install 'steelyard[{extra}]'")


class Invalid(Exception):  # noqa: N818 - a verdict raised by verifiers, not a program error
    """Raised by a verifier to reject a sample: the artifact is invalid, and the model is at fault."""
