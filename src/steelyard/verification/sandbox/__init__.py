"""Running code that a model wrote: limits, no network, nothing written outside a scratch folder, nothing left running.

How much of that holds depends on the *level* in force; ``docs/sandbox.md`` says what each does not cover.
"""

from steelyard.verification.sandbox.levels import Level, describe_level, level_in_force
from steelyard.verification.sandbox.run import Ran, RunLimits, run_code, run_command

__all__ = ["Level", "Ran", "RunLimits", "describe_level", "level_in_force", "run_code", "run_command"]
