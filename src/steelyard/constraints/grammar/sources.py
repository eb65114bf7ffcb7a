"""Checks grammar sources and converts them to the engine's Lark dialect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from steelyard.constraints import bounds
from steelyard.constraints.grammar.tokens import import_engine
from steelyard.errors import ConstraintError
from steelyard.text import shortened

Kind = Literal["json_schema", "regex", "lark", "choices"]
KINDS: tuple[Kind, ...] = ("json_schema", "regex", "lark", "choices")
HINTS: dict[Kind, str] = {
    "json_schema": "oneOf needs mutually exclusive parts (otherwise use anyOf), and $ref must point into the schema",
    "regex": "use Rust's syntax: no look-around, no back-references, \\z for \\Z",
    "lark": "docs/syntax.md of llguidance describes its dialect",
    "choices": "choices must be texts",
}


def parsed(kind: Kind, source: object) -> object:
    """Return the source as plain data, or raise if it is not valid for its kind."""
    if kind == "json_schema":
        if isinstance(source, str):
            try:
                source = json.loads(source)
            except ValueError as error:
                raise ConstraintError(f"the JSON schema is not valid JSON: {error}; correct it") from None
        return bounds.json_schema.check(source)
    if kind == "choices":
        if isinstance(source, str) or not isinstance(source, Sequence):
            raise ConstraintError(f"choices must be a list of strings, not {source!r}")
        choices = list(cast("Sequence[object]", source))
        if not choices or not all(isinstance(choice, str) for choice in choices):
            raise ConstraintError(f"choices must be a non-empty list of strings, not {source!r}")
        return choices
    if not isinstance(source, str):
        raise ConstraintError(f"a {kind} grammar must be a string, not {source!r}")
    if kind == "lark":
        _reject_special_tokens(source)
    return source


def _reject_special_tokens(grammar: str) -> None:
    try:
        special = bounds.lark.special_tokens(grammar)
    except bounds.LengthUnknown:
        return
    if special:
        raise ConstraintError(
            f"the grammar contains special tokens, which are never sampled: {', '.join(special)}; use plain text"
        )


def unbounded_text(kind: Kind, source: Any) -> str:
    """Return the grammar in the engine's Lark dialect, without length limits."""
    if kind == "json_schema":
        return json_text(source)
    if kind == "regex":
        return regex_text(source, None)
    if kind == "choices":
        return "start: CHOICE\nCHOICE: " + " | ".join(map(lark_string, source))
    return source


def lark_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def json_text(schema: Mapping[str, Any]) -> str:
    settings = {
        "whitespace_flexible": False,
        "item_separator": ",",
        "key_separator": ":",
        "coerce_one_of": False,
        "lenient": False,
        "json_allowed_escapes": bounds.json_schema.ESCAPES,
    }
    return "start: %json " + json.dumps({**schema, "x-guidance": settings})


def regex_text(pattern: str, max_bytes: int | None) -> str:
    """Return the pattern as a grammar, limited to matches of at most ``max_bytes`` bytes if given."""
    written = import_engine().regex_to_lark(pattern, "dws")
    if max_bytes is None:
        return f"start: /{written}/"
    return (
        '%llguidance {"allow_invalid_utf8": true}\n'  # required for the byte limit
        f"start: TEXT\nTEXT: /(?u:{written})/ & /(?s-u:.){{0,{max_bytes}}}/"
    )


def excerpt(source: object, length: int = 120) -> str:
    text = source if isinstance(source, str) else json.dumps(source, ensure_ascii=False)
    return repr(shortened(text, length))
