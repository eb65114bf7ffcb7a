"""Compare theories with each other and with well-known models, regardless of how they are written."""
