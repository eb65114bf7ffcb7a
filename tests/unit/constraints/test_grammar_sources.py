"""Sources of text grammars: the texts that schemas allow, and the sources that are rejected."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from steelyard.constraints.grammar import TokenTable
from steelyard.errors import ConstraintError
from tests.grammars import follow, grammar, small_table


@pytest.fixture
def small() -> TokenTable:
    return small_table()


def test_json_is_compact_and_in_the_schemas_order(small: TokenTable) -> None:
    schema = {"type": "object", "properties": {"b": {"const": [1, "x"]}, "a": {"type": "null"}}, "required": ["a", "b"]}
    schema = {**schema, "additionalProperties": False}
    found = follow(grammar(small, "json_schema", json.dumps(schema)), 0, 99)
    assert found.text(small) == '{"b":[1,"x"],"a":null}'


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "'uniqueItems' would not be enforced"),
        ({"type": "object", "properties": {"a": {"not": {"type": "string"}}}}, "#/properties/a: 'not' would not"),
        ({"type": "object", "dependentRequired": {"a": ["b"]}}, "dependentRequired"),
        ({"$defs": {"x": {"maxLenght": 3}}, "type": "string"}, "#/\\$defs/x: 'maxLenght'"),
        ({"type": "object", "minProperties": 1}, "a key may be repeated"),
        ({"type": "string", "format": "no such"}, "Unknown format"),
        ({"type": "strin"}, "Invalid type: strin"),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, "otherwise use anyOf"),
        ({"$ref": "#/$defs/none"}, "does not exist"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "greater than maxLength"),
        ({"enum": ["ok", {"k": ["a\x01b"]}]}, "control character"),
        ({"type": "array", "items": {"type": "string", "pattern": r"^(a|\x01b)$"}}, "#/items: it contains a control"),
        ({"type": "string", "pattern": '^[^"]*$'}, "would allow anyway"),
        ({"type": "object", "patternProperties": {r"^[^\\\n]$": {}}}, "exclude control characters"),
        ("{", "not valid JSON"),
        ([1], "a JSON schema must be an object"),
    ],
)
def test_schemas_that_would_not_be_enforced_are_rejected(small: TokenTable, schema: Any, said: str) -> None:
    with pytest.raises(ConstraintError, match=said):
        grammar(small, "json_schema", schema)


@pytest.mark.parametrize(
    ("kind", "source", "said"),
    [
        ("regex", "a(", "unclosed group"),
        ("regex", "a(?=b)", "look-around"),
        ("regex", r"(a)\1", "Rust's syntax: no look-around, no back-references"),
        ("regex", "a)|(b", "unopened group"),
        ("regex", 3, "must be a string, not 3"),
        ("lark", "sum: 'a'", "cannot be used"),
        ("lark", "start: <|im_start|>", "special tokens, which are never sampled.*im_start"),
        ("choices", [], "non-empty list of strings"),
        ("choices", "ab", "list of strings"),
        ("ebnf", "a", "kind = 'ebnf'.*json_schema, regex, lark, choices"),
    ],
)
def test_invalid_sources_are_rejected_with_a_reason(small: TokenTable, kind: str, source: Any, said: str) -> None:
    with pytest.raises(ConstraintError, match=said):
        grammar(small, kind, source, max_tokens=20)


@pytest.mark.parametrize(
    "schema",
    [
        {"const": {"é": ["\n\t\\/", 1.5, None]}},
        {"type": "string", "pattern": r'^[^\x00-\x1f"]{2}[\n\t ]$'},
        {"type": "object", "properties": {"\x01\x7f": {"const": "\b"}}, "required": ["\x01\x7f"]},
        {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 2}, "minItems": 1, "maxItems": 2},
        {"type": "string", "format": "date"},
        {"type": "object", "patternProperties": {"^a": {"type": "null"}}, "additionalProperties": False},
        {"allOf": [{"type": "integer"}, {"minimum": 3}, {"maximum": 12}]},
        {"oneOf": [{"type": "string", "maxLength": 2}, {"type": "null"}]},
    ],
)
def test_other_keywords_agree_with_jsonschema(small: TokenTable, schema: dict[str, Any]) -> None:
    constraint = grammar(small, "json_schema", schema, canonical_tokens=False)
    ended = [found for found in (follow(constraint, seed, 120) for seed in range(20)) if found.ended]
    assert ended
    for found in ended:
        jsonschema.validate(json.loads(found.text(small)), schema)
