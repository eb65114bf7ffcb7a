"""What every sample must look like: a grammar for text, or an automaton of your own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from steelyard.config.base import Section


class ConstraintConfig(Section):
    """Samples are drawn and learnt from under it. It comes from exactly one of source, file and column."""

    kind: Literal["json_schema", "regex", "lark", "choices", "automaton"] = Field(
        description="A grammar for text (extra grammars), or your own automaton."
    )
    source: str | dict[str, Any] | Annotated[tuple[str, ...], Strict(False)] | None = Field(
        default=None,
        description="The schema as a table, the pattern, the grammar, the choices, or the automaton as module:Class.",
    )
    file: str | None = Field(default=None, description="Or a file that holds it.", min_length=1)
    column: str | None = Field(default=None, description="Or the column of the tasks that holds it.", min_length=1)
    options: dict[str, Any] = Field(default={}, description="Options of the automaton; it checks them itself.")
    over: Literal["words", "characters"] | None = Field(
        default=None,
        description="What the automaton's symbols are; empty: words of a closed vocabulary, else characters.",
    )
    canonical_runs: bool | None = Field(
        default=None,
        description="Text that must come (a JSON key) is written with the tokenizer's own tokens; empty: true.",
    )
