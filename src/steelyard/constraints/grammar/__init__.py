r"""Text grammars over a model's vocabulary: JSON schemas, regular expressions, Lark grammars and lists of choices.

The engine is llguidance (docs/dependencies.md explains why); only ``tokens.py`` imports it.

How grammars are interpreted:

- JSON is compact, ``{"a":1,"b":[2,3]}``: no whitespace, keys in schema order, control characters only as short escapes.
  Keywords that the engine would ignore are rejected.
- A regular expression must match the complete sample. Expressions use Rust's syntax (no look-around, no
  back-references) with ASCII ``\d``, ``\w`` and ``\s``.
- A Lark grammar uses llguidance's dialect and starts at the rule ``start``.
- Tools: a call to one of the tools, spaced as models write it, or a final answer.
- The end token is the only special token that is ever allowed, and only after a complete sentence.
"""

from __future__ import annotations

from steelyard.constraints.grammar.constraint import GrammarConstraint, PerTask
from steelyard.constraints.grammar.tokens import TokenTable
from steelyard.constraints.grammar.tool_calls import ToolCallConstraint, ToolCallGrammar

__all__ = ["GrammarConstraint", "PerTask", "TokenTable", "ToolCallConstraint", "ToolCallGrammar"]
