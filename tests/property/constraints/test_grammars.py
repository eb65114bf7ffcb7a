"""Generated grammars: walks satisfy independent checkers, obey the limits, and replay to the same policy."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
from hypothesis import example, given, settings
from hypothesis import strategies as st

from steelyard.constraints.bounds import LengthUnknown, json_schema, regex
from steelyard.constraints.grammar import GrammarConstraint
from tests.grammars import TASK, follow, grammar, lengthening, replay, small_table

COUNTS = st.none() | st.integers(0, 3)
KEYS = st.sampled_from(["a", "name", "é", 'x"y', "tags", "line\n"])


def clean(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if value is not None}


@st.composite
def strings(draw: st.DrawFn) -> dict[str, Any]:
    least, extra = draw(COUNTS), draw(COUNTS)
    most = None if extra is None else (least or 0) + extra
    pattern = None
    if least is None and most is None:
        pattern = draw(st.sampled_from([None, None, "^[a-z]+$", '^x|"$', "b", "^[^a]{1,3}$", r"^\d\s?é*$"]))
    return clean({"type": "string", "minLength": least, "maxLength": most, "pattern": pattern})


@st.composite
def integers(draw: st.DrawFn) -> dict[str, Any]:
    low, width = draw(st.none() | st.integers(-200, 200)), draw(st.none() | st.integers(10, 300))
    most = width if low is None or width is None else low + width
    return clean(
        {"type": "integer", "minimum": low, "maximum": most, "multipleOf": draw(st.none() | st.integers(1, 5))}
    )


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    first, least, extra = draw(st.lists(inner, max_size=2)), draw(COUNTS), draw(COUNTS)
    most = None if extra is None else (least or 0) + extra
    items = draw(inner) if draw(st.booleans()) or (least or 0) > len(first) else False
    return clean({"type": "array", "prefixItems": first or None, "items": items, "minItems": least, "maxItems": most})


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    properties = draw(st.dictionaries(KEYS, inner, max_size=3))
    required = [key for key in properties if draw(st.booleans())]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


LEAVES = (
    strings()
    | integers()
    | st.sampled_from(
        [{"type": "null"}, {"type": "boolean"}, {"const": "é\n"}, {"enum": [1, "x", None, [2, {"k": 3}]]}]
    )
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: arrays(inner) | objects(inner) | st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner),
    max_leaves=6,
)

ATOMS = st.sampled_from(["a", "b", "é", "[a-c]", "[^a]", r"\d", ".", r"\.", "漢", "(?:ab|c)", r"[\w-]"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: (
        st.builds(lambda a, b: a + b, inner, inner)
        | st.builds(lambda a, b: f"(?:{a}|{b})", inner, inner)
        | st.builds(lambda a, sign: f"(?:{a}){sign}", inner, st.sampled_from(["*", "+", "?", "{2,}", "{1,3}"]))
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(SCHEMAS, st.booleans(), st.integers(0, 99))
def test_instances_validate_fit_and_replay(schema: dict[str, Any], canonical: bool, seed: int) -> None:
    table = small_table()
    constraint = grammar(table, "json_schema", schema, canonical_tokens=canonical, max_tokens=250)
    if not constraint.bounded:  # rarely, even the shortest nested arrays with required items are too long
        assert "longest sentence has" in constraint.unbounded_because
        return
    shortest = json_schema.shortest(schema)
    assert shortest is not None
    jsonschema.validate(json.loads(shortest), schema)
    for rank in (None, lengthening(table)):
        found = follow(constraint, seed, 300, rank=rank)
        assert found.ended
        assert len(found.tokens) <= 250
        text = found.text(table)
        jsonschema.validate(json.loads(text), schema)
        assert text == json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")) or "-0" in text
        assert len(text.encode()) >= len(shortest.encode())
        again = replay(constraint, found.tokens, 300)
        assert (again.tokens, again.decisions) == (found.tokens, found.decisions)


@settings(max_examples=80)
@given(PATTERNS, st.booleans(), st.integers(0, 99))
def test_texts_match_fit_and_replay(pattern: str, canonical: bool, seed: int) -> None:
    table = small_table()
    shortest = regex.shortest(pattern)
    assert re.fullmatch(pattern, shortest, re.ASCII)
    size = len(shortest.encode())
    constraint = grammar(table, "regex", pattern, canonical_tokens=canonical, max_tokens=size + 9)
    assert constraint.bounded, constraint.unbounded_because
    try:
        longest = min(regex.longest(pattern), size + 8)
    except LengthUnknown:
        longest = size + 8
    for rank in (None, lengthening(table)):
        found = follow(constraint, seed, size + 20, rank=rank)
        assert found.ended
        text = found.text(table)
        assert re.fullmatch(pattern, text, re.ASCII)
        assert size <= len(text.encode()) <= longest
        again = replay(constraint, found.tokens, size + 20)
        assert (again.tokens, again.decisions) == (found.tokens, found.decisions)
    refused_below(constraint, shortest, size)


def refused_below(constraint: GrammarConstraint, shortest: str, size: int) -> None:
    """With one byte less than the shortest text, the engine finds no text."""
    if size > 0:
        tight = grammar(constraint.table, "regex", constraint._source, max_tokens=size)
        assert "matches nothing" in tight.unbounded_because
    constraint.check_budget(TASK, len(constraint.table.encode(shortest)) + 1)


@settings(max_examples=40)
@given(st.lists(st.text(max_size=8), min_size=1, max_size=6), st.booleans(), st.integers(0, 99))
@example(["\x7f\x00", "\u2028"], True, 0)
def test_samples_are_complete_choices(choices: list[str], canonical: bool, seed: int) -> None:
    constraint = grammar(small_table(), "choices", choices, canonical_tokens=canonical, max_tokens=40)
    found = follow(constraint, seed, 40)
    assert found.ended
    assert found.text(small_table()) in choices
    assert constraint.bounded
