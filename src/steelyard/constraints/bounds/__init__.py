"""Computes the shortest and longest sentences of text grammars, and the limits that make every sentence fit.

A sentence of n bytes takes at most n tokens, because every byte is a token in a byte-level vocabulary. Lengths are
therefore counted in UTF-8 bytes. This package does not need the grammar engine.
"""

from __future__ import annotations

from steelyard.constraints.bounds import json_schema, lark, regex
from steelyard.constraints.bounds.regex import LengthUnknown, TooLong

__all__ = ["LengthUnknown", "TooLong", "json_schema", "lark", "regex"]
