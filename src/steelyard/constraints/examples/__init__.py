"""Two constraints to learn from: balanced brackets, and boxes in a bin."""
