"""One error class per boundary. Every message names the thing, its value, and the way out."""

from __future__ import annotations


class SteelyardError(Exception):
    """Base of all errors a user can cause or mend."""


class ConfigError(SteelyardError):
    """A configuration that cannot work; the text says which key and why."""


class DataError(SteelyardError):
    """Tasks that cannot be read or used."""


class VerifierError(SteelyardError):
    """A verifier that cannot be loaded, or that failed on a whole step."""


class SandboxError(SteelyardError):
    """Code that cannot be run as asked: the level is not to be had, or the program is not there."""


class PolicyError(SteelyardError):
    """A model that cannot be loaded or used as asked."""


class ConstraintError(SteelyardError):
    """A constraint that cannot be built or kept, or a token that it does not allow."""


class CheckpointError(SteelyardError):
    """A checkpoint that is missing, torn, or of another run."""


class TrainingError(SteelyardError):
    """Training cannot go on (for instance too many non-finite steps in a row)."""


class StoppedError(SteelyardError):
    """A signal asked for a stop before the first training step; what was done is saved."""


class LostLearnerError(TrainingError):
    """A process of the learner is gone; the run can go on from its last checkpoint."""


class TrustError(SteelyardError):
    """A run folder or a recipe names code that the user has not agreed to execute."""


class MissingExtraError(SteelyardError):
    """An optional engine is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional package: pip install 'steelyard[{extra}]'")


class Invalid(Exception):  # noqa: N818 - a verdict raised by verifiers, not a fault of the program
    """Raised by a verifier to reject a sample: the artifact is invalid, and that is the model's fault."""
