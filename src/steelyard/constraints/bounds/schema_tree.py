r"""Parses a JSON schema into a tree and rejects schemas that sampling would not enforce.

Every sample is valid, but not every valid instance can be sampled: keys follow the order of ``properties``, integers
are never written as ``1.0`` or ``1e3``, control characters appear only as short escapes, and a ``format`` is enforced.
In a ``pattern``, ``\d`` and ``\w`` are ASCII-only as in ECMAScript, so ``[^\w]`` is wider than in Python's jsonschema.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from steelyard.constraints.bounds import regex
from steelyard.constraints.bounds.regex import LengthUnknown
from steelyard.errors import ConstraintError

Schema = Mapping[str, Any]

WIDEST_CHARACTER = 4
FORMATS = {"date": ("2000-01-01", 10), "uuid": ("0" * 8 + "-0000-1000-8000-" + "0" * 12, 36), "ipv4": ("0.0.0.0", 15)}  # noqa: S104 - not an address to bind
"""Shortest text and maximum length of each format for which both are known."""

UNWRITABLE = re.compile(r"[\x00-\x07\x0b\x0e-\x1f\x7f]")
"""Control characters without a short escape. The engine drops them from literals."""

ANNOTATIONS = frozenset(
    [
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "$schema",
        "$id",
        "$defs",
        "definitions",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
    ]
)
ENFORCED = frozenset(
    [
        "type",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "allOf",
        "$ref",
        "items",
        "prefixItems",
        "additionalItems",
        "minItems",
        "maxItems",
        "properties",
        "patternProperties",
        "additionalProperties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
    ]
)
"""Keywords that the engine enforces."""


@dataclass(frozen=True)
class Fixed:
    """A choice between fixed strings."""

    source: Schema
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Text:
    source: Schema
    minimum: int
    maximum: int | None
    width: int = WIDEST_CHARACTER
    """Size of the widest character in bytes."""
    example: str = ""
    """The shortest text, if a pattern or format requires more than a length."""
    longest: int | None = None
    """Maximum size in bytes, if a pattern or format limits it."""


@dataclass(frozen=True)
class Integer:
    source: Schema
    minimum: int | None
    maximum: int | None
    step: int = 1


@dataclass(frozen=True)
class Array:
    source: Schema
    first: tuple[Node, ...]
    rest: Node | None
    minimum: int
    maximum: int | None


@dataclass(frozen=True)
class Object:
    source: Schema
    members: Mapping[str, Node]
    required: frozenset[str]
    minimum: int
    open_because: str = ""


@dataclass(frozen=True)
class Choice:
    source: Schema
    keyword: str
    options: tuple[Node, ...]


@dataclass(frozen=True)
class Reference:
    source: Schema
    target: str


@dataclass(frozen=True)
class Opaque:
    """A part that is unbounded or not analysed; ``shortest`` is set if known."""

    source: Schema
    reason: str
    shortest: str | None = None


Node = Fixed | Text | Integer | Array | Object | Choice | Reference | Opaque


@dataclass
class Tree:
    """The structure of a schema and the definitions it references."""

    root: Node
    definitions: dict[str, Node] = field(default_factory=dict[str, Node])


# Checks


def check(schema: object) -> Schema:
    """Return the schema if sampling enforces all of it; else raise a ``ConstraintError`` that names the keywords."""
    if not isinstance(schema, Mapping):
        raise ConstraintError(f"a JSON schema must be an object, not {schema!r}")
    for part, path in _parts(cast("Schema", schema), "#"):
        strange = [key for key in part if key not in ENFORCED | ANNOTATIONS and not key.startswith("x-")]
        if strange:
            raise ConstraintError(
                f"JSON schema {path}: {', '.join(map(repr, strange))} would not be enforced by sampling; remove it "
                "and check it in the verifier (names starting with x- are ignored)"
            )
        if part.get("minProperties") and _is_open(part):
            raise ConstraintError(
                f"JSON schema {path}: minProperties cannot be enforced with free keys, because a key may be repeated; "
                'list the keys under properties and set "additionalProperties": false'
            )
        if UNWRITABLE.search("".join(_named_texts(part))):
            raise ConstraintError(
                f"JSON schema {path}: it contains a control character that can only be written as \\u00.., which is "
                "never sampled; remove it"
            )
        unsafe = next(filter(_allows_control_characters, _patterns(part)), None)
        if unsafe is not None:
            raise ConstraintError(
                f"JSON schema {path}: pattern {unsafe!r} has a character class with control characters but without "
                '" or \\, which llguidance would allow anyway; exclude control characters by starting it with '
                "[^\\x00-\\x1f"
            )
    return cast("Schema", schema)


def _patterns(schema: Schema) -> Iterator[str]:
    return _strings([schema.get("pattern"), list(cast("Schema", schema.get("patternProperties", {})))])


def _allows_control_characters(pattern: str) -> bool:
    """Return whether a class has all control characters (newline is optional) but not both quote and backslash."""
    try:
        classes = regex.classes(pattern)
    except LengthUnknown:
        return "[^" in pattern
    controls = [chr(code) for code in range(0x20) if code != 0x0A]
    return any(all(map(has, controls)) and not (has('"') and has("\\")) for has in classes)


def _named_texts(schema: Schema) -> Iterator[str]:
    """Yield the string literals of a schema, excluding those of nested schemas."""
    yield from _strings([schema.get("const"), schema.get("enum")])
    for pattern in _patterns(schema):
        try:
            yield regex.literals(pattern)
        except LengthUnknown:
            yield pattern


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _strings(list(cast("Schema", value).items()))
    elif isinstance(value, list | tuple):
        for inner in cast("Sequence[object]", value):
            yield from _strings(inner)


def _is_open(schema: Schema) -> bool:
    return schema.get("additionalProperties", True) is not False or bool(schema.get("patternProperties"))


def _parts(schema: Schema, path: str) -> Iterator[tuple[Schema, str]]:
    """Yield a schema and every schema nested in it."""
    yield schema, path
    for key, value in schema.items():
        for name, inner in _inner_schemas(key, value):
            if isinstance(inner, Mapping):
                yield from _parts(cast("Schema", inner), f"{path}/{name}")


def _inner_schemas(key: str, value: object) -> list[tuple[str, object]]:
    if key in ("properties", "patternProperties", "$defs", "definitions") and isinstance(value, Mapping):
        return [(f"{key}/{name}", inner) for name, inner in cast("Schema", value).items()]
    if key in ("anyOf", "oneOf", "allOf", "prefixItems", "items") and isinstance(value, list):
        return [(f"{key}/{number}", inner) for number, inner in enumerate(cast("list[object]", value))]
    if key in ("items", "additionalItems", "additionalProperties"):
        return [(key, value)]
    return []


# Reading


def read(schema: Schema) -> Tree:
    tree = Tree(Opaque(schema, ""))
    tree.root = _node(schema, schema, tree)
    return tree


def _node(schema: object, root: Schema, tree: Tree) -> Node:
    if not isinstance(schema, Mapping):
        return Opaque({}, f"the schema {json.dumps(schema)} sets no limit", "0" if schema is True else None)
    source = cast("Schema", schema)
    keywords = {key: value for key, value in source.items() if key in ENFORCED}
    if "const" in keywords or "enum" in keywords:
        values = [keywords["const"]] if "const" in keywords else cast("list[object]", keywords["enum"])
        return Fixed(source, tuple(compact(value) for value in values))
    if "$ref" in keywords:
        return _reference(source, keywords, root, tree)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in keywords:
            return _combination(keyword, source, keywords, root, tree)
    kind = keywords.get("type")
    if isinstance(kind, list):
        options = tuple(_node({**source, "type": name}, root, tree) for name in cast("list[str]", kind))
        return Choice(source, "type", options)
    return _typed(kind, source, root, tree)


def _typed(kind: object, source: Schema, root: Schema, tree: Tree) -> Node:
    if kind == "null":
        return Fixed(source, ("null",))
    if kind == "boolean":
        return Fixed(source, ("true", "false"))
    if kind == "string":
        return _text(source)
    if kind == "integer":
        return _integer(source)
    if kind == "number":
        return Opaque(source, "a number can have any number of digits; use an integer", _shortest_number(source))
    if kind == "array":
        return _array(source, root, tree)
    if kind == "object":
        return _object(source, root, tree)
    return Opaque(source, "a schema without a type sets no limit", None if len(source) else "0")


def _reference(source: Schema, keywords: Schema, root: Schema, tree: Tree) -> Node:
    target = keywords["$ref"]
    if len(keywords) > 1 or not isinstance(target, str) or not target.startswith("#"):
        return Opaque(source, f"$ref {target!r} with other keywords, or into another file, is not analysed")
    if target not in tree.definitions:
        tree.definitions[target] = Opaque({}, "")  # placeholder, because a definition may refer to itself
        tree.definitions[target] = _node(_resolve(root, target), root, tree)
    return Reference(source, target)


def _resolve(root: Schema, target: str) -> object:
    found: object = root
    for step in target.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        try:
            found = cast("list[object]", found)[int(name)] if isinstance(found, list) else cast("Any", found)[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise ConstraintError(f"JSON schema: $ref {target!r} does not exist; correct it") from None
    return found


def _combination(keyword: str, source: Schema, keywords: Schema, root: Schema, tree: Tree) -> Node:
    parts = cast("Sequence[object]", keywords[keyword])
    if keyword != "allOf":
        if len(keywords) > 1:
            return Opaque(source, f"{keyword} with other keywords is not analysed")
        return Choice(source, keyword, tuple(_node(part, root, tree) for part in parts))
    merged = {key: value for key, value in source.items() if key != keyword}
    for part in parts:
        if not isinstance(part, Mapping) or set(cast("Schema", part)) & set(merged) & ENFORCED or "$ref" in part:
            return Opaque(source, "allOf with shared keywords or references is not analysed")
        merged = {**merged, **cast("Schema", part)}
    return _node(merged, root, tree)


def _text(source: Schema) -> Node:
    minimum, maximum = int(source.get("minLength", 0)), source.get("maxLength")
    text = Text(source, minimum, None if maximum is None else int(maximum))
    if "format" in source:
        if source["format"] not in FORMATS or "pattern" in source:
            return text if maximum is not None else Opaque(source, f"format {source['format']!r} has no maximum length")
        example, longest = FORMATS[source["format"]]
        return replace(text, example=example, longest=longest)
    if "pattern" not in source:
        return text
    try:
        pattern = regex.read(source["pattern"])
        example = regex.shortest(pattern.text)
        if not pattern.anchored:
            return replace(text, example=example)
        text = replace(text, example=example, width=regex.widest(pattern.text, json_bytes))
    except LengthUnknown as reason:
        return text if maximum is not None else Opaque(source, str(reason))
    try:
        return replace(text, longest=regex.longest(pattern.text, json_bytes))
    except LengthUnknown:
        return text


def _integer(source: Schema) -> Integer:
    lows = [math.ceil(source["minimum"])] if "minimum" in source else []
    highs = [math.floor(source["maximum"])] if "maximum" in source else []
    if "exclusiveMinimum" in source:
        lows.append(math.floor(source["exclusiveMinimum"]) + 1)
    if "exclusiveMaximum" in source:
        highs.append(math.ceil(source["exclusiveMaximum"]) - 1)
    step = source.get("multipleOf", 1)
    step = step if isinstance(step, int) and step > 0 else 1
    return Integer(source, max(lows, default=None), min(highs, default=None), step)


def _array(source: Schema, root: Schema, tree: Tree) -> Node:
    if isinstance(source.get("items"), list) or "additionalItems" in source:
        return Opaque(source, "items as a list is not analysed; use prefixItems")
    first = tuple(_node(part, root, tree) for part in cast("Sequence[object]", source.get("prefixItems", ())))
    items = source.get("items", True)
    rest = None if items is False else _node(items, root, tree)
    maximum = source.get("maxItems")
    return Array(source, first, rest, int(source.get("minItems", 0)), None if maximum is None else int(maximum))


def _object(source: Schema, root: Schema, tree: Tree) -> Node:
    properties = cast("Schema", source.get("properties", {}))
    members = {key: _node(part, root, tree) for key, part in properties.items() if part is not False}
    required = frozenset(cast("Sequence[str]", source.get("required", ())))
    because = ""
    if _is_open(source):
        because = 'an object may have other keys; set "additionalProperties": false'
        members |= {key: Opaque({}, because, "0") for key in required - set(members)}
    return Object(source, members, required, int(source.get("minProperties", 0)), because)


def compact(value: object) -> str:
    """Serialise a value as compact JSON, the form in which it is sampled."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def json_bytes(code: int) -> int:
    """Return the size in bytes of a character inside a JSON string."""
    return 2 if code < 0x20 or chr(code) in '"\\' else regex.utf8_bytes(code)


def shortest_integer(node: Integer) -> str | None:
    low = -math.inf if node.minimum is None else node.minimum
    high = math.inf if node.maximum is None else node.maximum
    if low <= 0 <= high:
        return "0"
    nearest = -(-node.minimum // node.step) if node.minimum is not None and node.minimum > 0 else 0
    if node.minimum is None or node.minimum <= 0:
        nearest = (node.maximum or 0) // node.step
    value = nearest * node.step
    return str(value) if low <= value <= high else None


def _shortest_number(source: Schema) -> str:
    whole = shortest_integer(_integer({**source, "multipleOf": 1}))
    return "0.1" if whole is None else whole
