"""Run model-written code under limits, without network access, with a scratch folder, and leave no process behind.

The *level* determines how much of this is enforced; ``docs/sandbox.md`` lists what each level does not cover.
"""

from steelyard.verification.sandbox.levels import Level, describe_level, level_in_force
from steelyard.verification.sandbox.run import RunLimits, RunResult, run_code, run_command
from steelyard.verification.sandbox.session import SandboxSession

__all__ = [
    "Level",
    "RunLimits",
    "RunResult",
    "SandboxSession",
    "describe_level",
    "level_in_force",
    "run_code",
    "run_command",
]
