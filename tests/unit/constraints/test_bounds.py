"""Shortest and longest sentences computed by hand, and checks that bounded grammars obey their limit."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from steelyard.constraints.bounds import LengthUnknown, TooLong, json_schema, lark, regex
from steelyard.types import Task
from tests.grammars import follow, grammar, lengthening, small_table

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
TREE = {
    "$ref": "#/$defs/tree",
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {"value": WHOLE, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
            "required": ["value"],
            "additionalProperties": False,
        }
    },
}


def closed(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    names = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


@pytest.mark.parametrize(
    ("pattern", "shortest", "longest"),
    [
        ("", "", 0),
        ("abc?", "ab", 3),
        ("(ab|c)+", "c", None),
        ("(ab|c){2,3}é", "ccé", 8),
        (r"\d{3}-\w*", "000-", None),
        ("[^a-z]{2}", "00", 8),
        (".", "a", 4),
        ("[a-zé漢]", "a", 3),
        ("(?i)k", "k", 3),
        ("(?:)*x", "x", 1),
        (r"^\s$", " ", 3),
        ("[é-ü]", "é", 2),
    ],
)
def test_patterns(pattern: str, shortest: str, longest: int | None) -> None:
    found = regex.shortest(pattern)
    assert len(found.encode()) == len(shortest.encode())
    assert re.fullmatch(pattern, found)
    if longest is None:
        with pytest.raises(LengthUnknown, match="no upper limit"):
            regex.longest(pattern)
    else:
        assert regex.longest(pattern) == longest


@pytest.mark.parametrize("pattern", [r"\p{L}", "[a&&b]", "[[:alpha:]]", "(", "a(?=b)", r"(a)\1"])
def test_patterns_in_another_syntax_are_not_analysed(pattern: str) -> None:
    with pytest.raises(LengthUnknown, match="cannot be analysed"):
        regex.shortest(pattern)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (TEXT, '""'),
        ({"type": "string", "minLength": 2}, '"aa"'),
        ({"type": "string", "pattern": '^x"+$'}, '"x\\""'),
        ({"type": "string", "format": "date"}, '"2000-01-01"'),
        (WHOLE, "0"),
        ({"type": "integer", "minimum": 7, "multipleOf": 5}, "10"),
        ({"type": "integer", "exclusiveMaximum": -20}, "-21"),
        ({"type": "number", "minimum": 2.5}, "3"),
        ({"enum": ["long", 10, None]}, "10"),
        ({"type": ["string", "boolean"], "minLength": 3}, "true"),
        ({"anyOf": [{"type": "string", "minLength": 9}, {"type": "null"}]}, "null"),
        ({"allOf": [{"type": "integer"}, {"minimum": 30}]}, "30"),
        ({"type": "array", "items": WHOLE, "minItems": 3}, "[0,0,0]"),
        ({"type": "array", "prefixItems": [TEXT], "items": WHOLE, "minItems": 2}, '["",0]'),
        (closed(["b"], a=WHOLE, b=TEXT), '{"b":""}'),
        ({**closed([], a=TEXT, b=WHOLE), "minProperties": 1}, '{"b":0}'),
        ({"type": "object", "required": ["é"]}, '{"é":0}'),
        (TREE, '{"value":0}'),
    ],
)
def test_shortest_instances(schema: dict[str, Any], text: str) -> None:
    assert json_schema.shortest(json_schema.check(schema)) == text
    jsonschema.validate(json.loads(text), schema)


def test_a_schema_that_only_contains_itself_has_no_instance() -> None:
    assert json_schema.shortest({"$ref": "#/$defs/a", "$defs": {"a": closed(a={"$ref": "#/$defs/a"})}}) is None


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (TREE, "'#/\\$defs/tree' contains itself"),
        ({"type": "number"}, "use an integer"),
        ({"type": "object", "properties": {"a": TEXT}}, '"additionalProperties": false'),
        ({"type": "array"}, "sets no limit"),
        ({"type": "string", "format": "email"}, "'email' has no maximum length"),
        ({"type": "string", "pattern": r"^\p{L}+$"}, "cannot be analysed"),
        ({"anyOf": [TEXT, WHOLE], "maxLength": 3}, "with other keywords"),
        ({"minimum": 3}, "without a type"),
        (closed(a={"const": "x" * 100}), "longest sentence has 108 bytes.* more than 60"),
    ],
)
def test_schemas_that_cannot_be_bounded_have_a_reason(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(LengthUnknown, match=reason):
        json_schema.bound(schema, 60)
    constraint = grammar(small_table(), "json_schema", schema, max_tokens=61)
    assert not constraint.bounded
    assert re.search(reason, constraint.unbounded_because)


def test_limits_are_as_wide_as_possible() -> None:
    assert json_schema.bound(TEXT, 42)["maxLength"] == 10
    assert json_schema.bound({"type": "string", "pattern": "^[a-z ]*$"}, 42)["maxLength"] == 40
    assert json_schema.bound({"type": "array", "items": {"const": 1}}, 42)["maxItems"] == 20
    assert json_schema.bound(WHOLE, 5) == {"type": "integer", "minimum": -9999, "maximum": 9999}
    assert json_schema.bound(WHOLE, 99)["maximum"] == 10**15 - 1
    assert json_schema.bound({"type": "integer", "minimum": 5}, 3) == {"type": "integer", "minimum": 5, "maximum": 999}
    assert json_schema.bound({"type": "string", "maxLength": 3}, 14) == {"type": "string", "maxLength": 3}
    bounded = json_schema.bound(closed(name=TEXT, tags={"type": "array", "items": TEXT}), 200)
    assert json_schema.longest(bounded) in range(175, 201)


LONGEST = [
    ("json_schema", TEXT, 31),
    ("json_schema", {"type": "string", "pattern": '^["a]*$'}, 31),
    ("json_schema", {"type": "string", "pattern": "^[a-z]{2,}$"}, 31),
    ("json_schema", {"type": "array", "items": {"type": "boolean"}}, 31),
    ("json_schema", WHOLE, 31),
    ("json_schema", {"type": "integer", "minimum": -3}, 9),
    ("json_schema", {"type": "integer", "multipleOf": 7, "maximum": 5}, 9),
    ("json_schema", {"type": "array", "prefixItems": [WHOLE], "items": TEXT}, 60),
    ("json_schema", closed(**{'é\n"': TEXT, "b": {"type": ["string", "null"]}}), 60),
    ("json_schema", {"anyOf": [TEXT, {"type": "array", "items": WHOLE}]}, 31),
    ("json_schema", closed(a={"$ref": "#/$defs/t"}, b={"$ref": "#/$defs/t"}) | {"$defs": {"t": TEXT}}, 60),
    ("regex", "(?s).*", 31),
    ("regex", "[^x]+é{2}", 31),
    ("regex", "(foo|[0-9]+, )*end", 31),
    ("regex", r"\w+@\w+\.com", 31),
    ("regex", "^((a|b)*c)*d{5}$", 31),
    ("regex", r"\p{Lu}+x", 31),
    ("choices", ["a", "é" * 7], 31),
]


@pytest.mark.parametrize(("kind", "source", "tokens"), LONGEST)
def test_no_walk_exceeds_the_budget(kind: str, source: Any, tokens: int) -> None:
    """The longest walk, with one token per byte, ends in time and uses nearly the entire budget."""
    table = small_table()
    constraint = grammar(table, kind, source, max_tokens=tokens, canonical_tokens=False)
    assert constraint.bounded, constraint.unbounded_because
    lengths = []
    for seed in range(12):
        for rank in (lengthening(table), None):
            found = follow(constraint, seed, tokens + 20, rank=rank)
            assert found.ended
            assert len(found.tokens) <= tokens
            lengths.append(len(found.tokens))
            if kind == "json_schema":
                jsonschema.validate(json.loads(found.text(table)), source)
    assert max(lengths) >= min(tokens - 7, 15)


@pytest.mark.parametrize(
    ("grammar_text", "sentence"),
    [
        ('start: "a" b?\nb: "c"', "a"),
        ('start: e\ne: e "+" e | "(" e ")" | NUM\nNUM: /[1-9][0-9]{2,}/', "100"),
        ('// a comment\n?start: x -> alias\n!x: "a"~2..4 ["no"] "é".."ü"', "aaé"),
        ('start: "\\n\\"" /b{2}/i', '\n"bb'),
        ("%import common.INT\n%import common.ESCAPED_STRING -> STR\n%ignore / +/\nstart: INT STR", '0""'),
        ('%import common (INT, WORD)\nstart: (INT ","){2,3} WORD+', "0,0,a"),
        ('start: item{2}\nitem: %json {"type": "integer", "minimum": 10} x\nx[max_tokens=5]: ";"', "10;10;"),
        ('%llguidance {"no_forcing": true}\nstart: ("ab" | "c") ("d" | )', "c"),
    ],
)
def test_shortest_sentences_of_lark_grammars(grammar_text: str, sentence: str) -> None:
    found = lark.shortest(grammar_text)
    assert found is not None
    assert len(found) == len(sentence)
    walk = grammar(small_table(), "lark", grammar_text, canonical_tokens="%llg" in grammar_text)
    taken = walk.begin(Task("t", ""))
    for token in [*small_table().engine.greedy_tokenize(found), small_table().end_id]:
        taken.advance(token)


@pytest.mark.parametrize(
    ("grammar_text", "reason"),
    [
        ('start: A & B\nA: "a"\nB: "b"', "cannot be analysed"),
        ('start: ~"a"', "cannot be analysed"),
        ("start: missing", "'missing' is not defined"),
        ("%import python.NAME\nstart: NAME", "cannot be analysed"),
        ('begin: "a"', "no rule 'start'"),
        ('start: ("a"', "not closed"),
        (r"start: /\p{L}/", "cannot be analysed"),
        ("start: 'a'", "cannot be analysed at"),
    ],
)
def test_other_lark_grammars_are_not_analysed(grammar_text: str, reason: str) -> None:
    with pytest.raises(LengthUnknown, match=reason):
        lark.shortest(grammar_text)


def test_infinite_grammars_and_special_tokens() -> None:
    assert lark.shortest('start: "a" start') is None
    assert lark.special_tokens('start: "<x>" <|im_start|> <[5]>') == ["<|im_start|>", "<[5]>"]


def repeated_pairs(levels: int) -> dict[str, object]:
    """Each definition contains the next one twice."""
    definitions: dict[str, object] = {
        f"d{level}": {
            "type": "array",
            "prefixItems": [{"$ref": f"#/$defs/d{level + 1}"}] * 2,
            "items": False,
            "minItems": 2,
        }
        for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": {"type": "boolean"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "integer"}, "minItems": 60},
        {"type": "array", "minItems": 8, "items": {"type": "array", "minItems": 8, "items": {"type": "boolean"}}},
        {"type": "string", "minLength": 101},
        repeated_pairs(6),
    ],
)
def test_huge_shortest_instances_are_not_constructed(
    schema: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert json_schema.shortest(schema) is not None
    monkeypatch.setattr(regex, "MAX_CHARACTERS", 100)
    monkeypatch.setattr(json_schema, "MAX_CHARACTERS", 100)
    assert json_schema.shortest(schema) is None
    either = {"anyOf": [{"type": "null"}, schema]} if "$defs" not in schema else {"type": "null"}
    assert json_schema.shortest(either) == "null", "a short alternative is chosen"


@pytest.mark.parametrize("pattern", ["a{101}", "((a{5}){5}){5}", "a{60}b{60}", "(a{101}|b{102})"])
def test_huge_shortest_texts_are_not_constructed(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert regex.shortest(pattern)
    monkeypatch.setattr(regex, "MAX_CHARACTERS", 100)
    with pytest.raises(TooLong, match="lower its minimum counts"):
        regex.shortest(pattern)
    assert regex.shortest(f"{pattern}|b") == "b"


@pytest.mark.parametrize(
    "grammar", ['start: "a"{101}', 'start: "ab"~51..60', "start: a a\na: b b\nb: " + '"' + "x" * 26 + '"']
)
def test_huge_shortest_sentences_are_not_constructed(grammar: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lark.shortest(grammar)
    monkeypatch.setattr(lark, "MAX_CHARACTERS", 100)
    assert lark.shortest(grammar) is None


def test_definitions_are_measured_once() -> None:
    """The size doubles forty times; the longest instance is measured without being constructed."""
    assert json_schema.longest(repeated_pairs(40)) == 2**40 * 5 + 3 * (2**40 - 1)


def test_a_schema_may_allow_very_many_items() -> None:
    schema = {"type": "array", "items": {"const": 1}, "maxItems": 10**15}
    assert json_schema.longest(schema) == 2 * 10**15 + 1
