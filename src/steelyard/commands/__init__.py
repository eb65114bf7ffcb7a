"""The commands, one module each; see ``steelyard.cli``."""

FAILED, FAULT, INTERRUPTED = 1, 2, 130
"""Exit codes. FAILED: the result is negative, for example a verifier that fails on every sample. FAULT: an error that
the message explains. INTERRUPTED: a signal stopped the run, which is saved and can be resumed."""
