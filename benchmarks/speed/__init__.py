"""Time and memory against TRL and bare transformers, and the time of the CI gate."""
