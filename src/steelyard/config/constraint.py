"""Configuration of the constraint on samples: a grammar for text, or a custom automaton."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from steelyard.config.base import Section


class ConstraintConfig(Section):
    """The constraint applies to both sampling and training. Set exactly one of source, file and column; for kind =
    tools, at most one.
    """

    kind: Literal["json_schema", "regex", "lark", "choices", "automaton", "tools"] = Field(
        description="Kind of text grammar (requires the grammars extra), automaton for your own class, or tools: a "
        "call to one of the tools, or a final answer that matches source (any text if there is no source)."
    )
    source: str | dict[str, Any] | Annotated[tuple[str, ...], Strict(False)] | None = Field(
        default=None,
        description="The JSON schema as a table, the regular expression, the grammar, the list of choices, or the "
        "automaton as module:Class.",
    )
    file: str | None = Field(
        default=None,
        description="File containing the schema, expression, grammar or choices; replaces source.",
        min_length=1,
    )
    column: str | None = Field(
        default=None,
        description="Task column containing the source, for constraints that differ between tasks; replaces source.",
        min_length=1,
    )
    options: dict[str, Any] = Field(
        default={}, description="Keyword arguments passed to the automaton, which validates them."
    )
    symbols: Literal["words", "characters"] | None = Field(
        default=None,
        description="The automaton's symbols. Default: words for a closed vocabulary, otherwise characters.",
    )
    canonical_tokens: bool | None = Field(
        default=None,
        description="Write forced text, such as a JSON key, with the tokenizer's canonical tokens. Default: true.",
    )
