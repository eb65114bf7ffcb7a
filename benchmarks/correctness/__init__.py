"""Log-probabilities and updates match an independent computation."""
