"""Log-probabilities and updates equal an independent computation."""
