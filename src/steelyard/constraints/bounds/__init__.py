"""How short and how long a sentence of a text grammar can be, and the bounds that make every sentence fit.

A sentence of n bytes takes at most n tokens, since every byte is a token of its own in a byte-level vocabulary, so
lengths are counted in bytes of UTF-8. Nothing here needs the engine that follows the grammar.
"""

from __future__ import annotations

from steelyard.constraints.bounds import json_schema, lark, regex
from steelyard.constraints.bounds.regex import CannotTell, TooLong

__all__ = ["CannotTell", "TooLong", "json_schema", "lark", "regex"]
