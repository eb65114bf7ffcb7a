"""Brick structures: stability, parsing, learning and decoding."""
