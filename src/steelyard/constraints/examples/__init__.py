"""Example constraints: balanced brackets and boxes in a bin."""
