"""Time and memory compared with TRL and bare transformers, and the duration of the CI gate."""
