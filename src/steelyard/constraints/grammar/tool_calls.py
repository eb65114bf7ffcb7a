"""The grammar of a turn with tools: a call whose arguments match a JSON schema, or a final answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.constraints import bounds
from steelyard.constraints.grammar.constraint import GrammarConstraint
from steelyard.constraints.grammar.sources import lark_string
from steelyard.constraints.grammar.tokens import import_engine
from steelyard.errors import ConstraintError
from steelyard.types import Task

ANY_TEXT_BUT = "/(?s:.+)/ & ~"
"""Start of a terminal that matches any text that does not contain a pattern."""
SPACED = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "coerce_one_of": False,
    "lenient": False,
    "json_allowed_escapes": bounds.json_schema.ESCAPES,
}
"""Calls are spaced as models write them: ``{"name": "f", "arguments": {"x": 1}}``."""


@dataclass(frozen=True)
class ToolCallGrammar:
    """Builds the Lark grammar of a single turn."""

    calls: Sequence[Mapping[str, Any]]
    """JSON schema of each call."""
    before: str
    """Text before the JSON of a call."""
    after: str
    final: str | Callable[[Task], object] | None = None
    """Regular expression for the final answer: one for all tasks, or a function of the task. ``None`` allows any text
    that contains no call."""

    def __call__(self, task: Task) -> str:
        """Return the grammar of a turn in the engine's Lark dialect."""
        final = self.final(task) if callable(self.final) else self.final
        if final is not None and not isinstance(final, str):
            raise ConstraintError(f"task {task.id}: the final answer must match a regular expression, not {final!r}")
        calls = [f"%json {json.dumps({**bounds.json_schema.check(call), 'x-guidance': SPACED})}" for call in self.calls]
        opened, closed = (lark_string(text) if text else "" for text in (self.before, self.after))
        rules = [f"call_{number}: {opened} {call} {closed}" for number, call in enumerate(calls)]
        options = " | ".join([*(f"call_{number}" for number in range(len(calls))), "FINAL"])
        return "\n".join([f"start: {options}", *rules, f"FINAL: {self._answer(final)}"])

    def _answer(self, final: str | None) -> str:
        if final is not None:
            return f"/{import_engine().regex_to_lark(final, 'dws')}/"
        marker = self.before.strip()
        if not marker:
            return r"/[^{\s](?s:.*)/"
        escaped = "".join(one if one.isalnum() else f"\\x{ord(one):02x}" for one in marker)
        return f"{ANY_TEXT_BUT}/(?s:.*){escaped}(?s:.*)/"


class ToolCallConstraint(GrammarConstraint):
    """Constrains a turn to the sentences of a :class:`ToolCallGrammar`."""

    def __init__(self, source: str | ToolCallGrammar, tokenizer: object, **settings: Any) -> None:
        super().__init__("lark", source, tokenizer, **settings)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        build, (_, source, table) = super().__reduce__()
        return build, (source, table)

    def _shortest(self, source: Any) -> str | None:
        """Return a single character if the final answer may be any text; it is shorter than any call."""
        return "." if ANY_TEXT_BUT in source else super()._shortest(source)
