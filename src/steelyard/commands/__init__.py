"""The commands, one module each; see ``steelyard.cli``."""

FAILED, FAULT, INTERRUPTED = 1, 2, 130
"""Exit codes.

FAILED: the command ran, but its result is negative, for example a verifier that fails on every sample. FAULT: an error
explained by a message. INTERRUPTED: a signal stopped the run; it is saved and can be resumed.
"""
