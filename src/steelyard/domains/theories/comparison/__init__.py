"""Compare theories up to how they are written, and with well-known models."""
