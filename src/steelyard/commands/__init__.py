"""One file a command; see ``steelyard.cli``."""

FAILED, FAULT, INTERRUPTED = 1, 2, 130
"""Exit codes: the answer is no (a checker that fails on everything), a mistake that the message explains, and a run
stopped by a signal, which is saved and can be resumed."""
