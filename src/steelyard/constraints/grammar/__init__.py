r"""Text grammars over a model's vocabulary: JSON schemas, regular expressions, Lark grammars and lists of choices.

The engine is llguidance (docs/dependencies.md says why); ``tokens.py`` is the only file that imports it.

What a grammar means here:

- JSON is written compactly, ``{"a":1,"b":[2,3]}``: no white space, keys in the order of the schema, control characters
  only as the short escapes. A keyword that the engine would pass over is refused.
- A regular expression is for the whole sample, in Rust's syntax (no look-around, no back-references), with ASCII
  ``\d``, ``\w`` and ``\s``.
- A Lark grammar is in llguidance's dialect, from the rule ``start``.
- The only special token that is ever allowed is the end token, and only where a sentence is whole.
"""

from __future__ import annotations

from steelyard.constraints.grammar.constraint import GrammarConstraint, PerTask
from steelyard.constraints.grammar.tokens import TokenTable

__all__ = ["GrammarConstraint", "PerTask", "TokenTable"]
