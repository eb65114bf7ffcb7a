r"""A JSON schema as a tree of what its instances look like, and the refusal of what sampling would not keep to.

All that is sampled is valid, but not all that is valid can be sampled: keys come in the order of ``properties``,
integers never as ``1.0`` or ``1e3``, control characters only by their short escapes, and a ``format`` is enforced. In
a ``pattern`` ``\d`` and ``\w`` are ASCII as in ECMAScript, so ``[^\w]`` is wider than in Python's jsonschema.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from steelyard.constraints.bounds import regex
from steelyard.constraints.bounds.regex import CannotTell
from steelyard.errors import ConstraintError

Schema = Mapping[str, Any]

WIDEST_CHARACTER = 4
FORMATS = {"date": ("2000-01-01", 10), "uuid": ("0" * 8 + "-0000-1000-8000-" + "0" * 12, 36), "ipv4": ("0.0.0.0", 15)}  # noqa: S104 - not an address to bind
"""Shortest text and greatest length of the formats that have one."""

UNWRITABLE = re.compile(r"[\x00-\x07\x0b\x0e-\x1f\x7f]")
"""Control characters without a short escape. The engine drops them from a text that names them."""

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
"""Keywords that the engine keeps to."""


@dataclass(frozen=True)
class Fixed:
    """One of some texts."""

    source: Schema
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Text:
    source: Schema
    least: int
    most: int | None
    width: int = WIDEST_CHARACTER
    """Bytes of the widest character."""
    example: str = ""
    """The shortest text, if a pattern or a format asks for more than a length."""
    longest: int | None = None
    """Bytes, if a pattern or a format sets a limit."""


@dataclass(frozen=True)
class Whole:
    source: Schema
    least: int | None
    most: int | None
    step: int = 1


@dataclass(frozen=True)
class Array:
    source: Schema
    first: tuple[Node, ...]
    rest: Node | None
    least: int
    most: int | None


@dataclass(frozen=True)
class Object:
    source: Schema
    members: Mapping[str, Node]
    required: frozenset[str]
    least: int
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
    """What has no longest form, or is not analysed; ``shortest`` where that is known all the same."""

    source: Schema
    reason: str
    shortest: str | None = None


Node = Fixed | Text | Whole | Array | Object | Choice | Reference | Opaque


@dataclass
class Tree:
    """A schema's structure, with the definitions that it refers to."""

    root: Node
    definitions: dict[str, Node] = field(default_factory=dict[str, Node])


# Checks


def check(schema: object) -> Schema:
    """The schema, if all it says is kept; a ``ConstraintError`` names keywords that would be passed over."""
    if not isinstance(schema, Mapping):
        raise ConstraintError(f"a JSON schema is an object, not {schema!r}")
    for part, path in _parts(cast("Schema", schema), "#"):
        strange = [key for key in part if key not in ENFORCED | ANNOTATIONS and not key.startswith("x-")]
        if strange:
            raise ConstraintError(
                f"JSON schema {path}: {', '.join(map(repr, strange))} would not be enforced while sampling; leave it "
                "out and let the verifier check it (names that begin with x- are passed over)"
            )
        if part.get("minProperties") and _is_open(part):
            raise ConstraintError(
                f"JSON schema {path}: minProperties cannot be kept where keys are free, since a key may come twice; "
                'list the keys under properties and set "additionalProperties": false'
            )
        if UNWRITABLE.search("".join(_named_texts(part))):
            raise ConstraintError(
                f"JSON schema {path}: it names a control character that can only be written as \\u00..; those are not "
                "sampled, leave it out"
            )
        leaky = next(filter(_leaks, _patterns(part)), None)
        if leaky is not None:
            raise ConstraintError(
                f"JSON schema {path}: pattern {leaky!r} has a class of characters with control characters in it but "
                'without " or \\, which llguidance lets through all the same; leave the control characters out of it: '
                "begin it with [^\\x00-\\x1f"
            )
    return cast("Schema", schema)


def _patterns(schema: Schema) -> Iterator[str]:
    return _strings([schema.get("pattern"), list(cast("Schema", schema.get("patternProperties", {})))])


def _leaks(pattern: str) -> bool:
    """Whether a class has all control characters (but perhaps the new line) and lacks what JSON escapes besides."""
    try:
        classes = regex.classes(pattern)
    except CannotTell:
        return "[^" in pattern
    controls = [chr(code) for code in range(0x20) if code != 0x0A]
    return any(all(map(has, controls)) and not (has('"') and has("\\")) for has in classes)


def _named_texts(schema: Schema) -> Iterator[str]:
    """The texts that a schema (without those inside it) asks for letter by letter."""
    yield from _strings([schema.get("const"), schema.get("enum")])
    for pattern in _patterns(schema):
        try:
            yield regex.literals(pattern)
        except CannotTell:
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
    """Every schema inside a schema, itself first."""
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
        return Opaque({}, f"{json.dumps(schema)} as a schema sets no limit", "0" if schema is True else None)
    source = cast("Schema", schema)
    said = {key: value for key, value in source.items() if key in ENFORCED}
    if "const" in said or "enum" in said:
        values = [said["const"]] if "const" in said else cast("list[object]", said["enum"])
        return Fixed(source, tuple(compact(value) for value in values))
    if "$ref" in said:
        return _reference(source, said, root, tree)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in said:
            return _combination(keyword, source, said, root, tree)
    kind = said.get("type")
    if isinstance(kind, list):
        options = tuple(_node({**source, "type": one}, root, tree) for one in cast("list[str]", kind))
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
        return _whole(source)
    if kind == "number":
        return Opaque(source, "a number can have any count of digits: ask for an integer", _shortest_number(source))
    if kind == "array":
        return _array(source, root, tree)
    if kind == "object":
        return _object(source, root, tree)
    return Opaque(source, "a schema without a type sets no limit", None if len(source) else "0")


def _reference(source: Schema, said: Schema, root: Schema, tree: Tree) -> Node:
    target = said["$ref"]
    if len(said) > 1 or not isinstance(target, str) or not target.startswith("#"):
        return Opaque(source, f"$ref {target!r} with other keywords beside it, or into another file, is not analysed")
    if target not in tree.definitions:
        tree.definitions[target] = Opaque({}, "")  # holds the place while it is read: it may refer to itself
        tree.definitions[target] = _node(_resolve(root, target), root, tree)
    return Reference(source, target)


def _resolve(root: Schema, target: str) -> object:
    found: object = root
    for step in target.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        try:
            found = cast("list[object]", found)[int(name)] if isinstance(found, list) else cast("Any", found)[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise ConstraintError(f"JSON schema: $ref {target!r} leads nowhere") from None
    return found


def _combination(keyword: str, source: Schema, said: Schema, root: Schema, tree: Tree) -> Node:
    parts = cast("Sequence[object]", said[keyword])
    if keyword != "allOf":
        if len(said) > 1:
            return Opaque(source, f"{keyword} with other keywords beside it is not analysed")
        return Choice(source, keyword, tuple(_node(part, root, tree) for part in parts))
    merged = {key: value for key, value in source.items() if key != keyword}
    for part in parts:
        if not isinstance(part, Mapping) or set(cast("Schema", part)) & set(merged) & ENFORCED or "$ref" in part:
            return Opaque(source, "allOf whose parts share a keyword, or refer, is not analysed")
        merged = {**merged, **cast("Schema", part)}
    return _node(merged, root, tree)


def _text(source: Schema) -> Node:
    least, most = int(source.get("minLength", 0)), source.get("maxLength")
    text = Text(source, least, None if most is None else int(most))
    if "format" in source:
        if source["format"] not in FORMATS or "pattern" in source:
            return text if most is not None else Opaque(source, f"format {source['format']!r} has no longest text")
        example, longest = FORMATS[source["format"]]
        return replace(text, example=example, longest=longest)
    if "pattern" not in source:
        return text
    try:
        pattern = regex.read(source["pattern"])
        example = regex.shortest(pattern.text)
        if not pattern.whole:
            return replace(text, example=example)
        text = replace(text, example=example, width=regex.widest(pattern.text, json_bytes))
    except CannotTell as reason:
        return text if most is not None else Opaque(source, str(reason))
    try:
        return replace(text, longest=regex.longest(pattern.text, json_bytes))
    except CannotTell:
        return text


def _whole(source: Schema) -> Whole:
    lows = [math.ceil(source["minimum"])] if "minimum" in source else []
    highs = [math.floor(source["maximum"])] if "maximum" in source else []
    if "exclusiveMinimum" in source:
        lows.append(math.floor(source["exclusiveMinimum"]) + 1)
    if "exclusiveMaximum" in source:
        highs.append(math.ceil(source["exclusiveMaximum"]) - 1)
    step = source.get("multipleOf", 1)
    step = step if isinstance(step, int) and step > 0 else 1
    return Whole(source, max(lows, default=None), min(highs, default=None), step)


def _array(source: Schema, root: Schema, tree: Tree) -> Node:
    if isinstance(source.get("items"), list) or "additionalItems" in source:
        return Opaque(source, "items as a list is not analysed: say prefixItems")
    first = tuple(_node(part, root, tree) for part in cast("Sequence[object]", source.get("prefixItems", ())))
    items = source.get("items", True)
    rest = None if items is False else _node(items, root, tree)
    most = source.get("maxItems")
    return Array(source, first, rest, int(source.get("minItems", 0)), None if most is None else int(most))


def _object(source: Schema, root: Schema, tree: Tree) -> Node:
    properties = cast("Schema", source.get("properties", {}))
    members = {key: _node(part, root, tree) for key, part in properties.items() if part is not False}
    required = frozenset(cast("Sequence[str]", source.get("required", ())))
    because = ""
    if _is_open(source):
        because = 'an object may have further keys: set "additionalProperties": false'
        members |= {key: Opaque({}, because, "0") for key in required - set(members)}
    return Object(source, members, required, int(source.get("minProperties", 0)), because)


def compact(value: object) -> str:
    """JSON as it is sampled."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def json_bytes(code: int) -> int:
    """Bytes of a character inside a JSON string."""
    return 2 if code < 0x20 or chr(code) in '"\\' else regex.utf8_bytes(code)


def shortest_whole(node: Whole) -> str | None:
    low = -math.inf if node.least is None else node.least
    high = math.inf if node.most is None else node.most
    if low <= 0 <= high:
        return "0"
    nearest = -(-node.least // node.step) if node.least is not None and node.least > 0 else 0
    if node.least is None or node.least <= 0:
        nearest = (node.most or 0) // node.step
    value = nearest * node.step
    return str(value) if low <= value <= high else None


def _shortest_number(source: Schema) -> str:
    whole = shortest_whole(_whole({**source, "multipleOf": 1}))
    return "0.1" if whole is None else whole
