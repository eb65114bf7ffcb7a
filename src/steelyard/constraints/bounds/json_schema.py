"""JSON schemas: the shortest instance, and bounds on what a schema leaves open so that the longest instance fits.

Instances are counted as they are sampled: compact (``{"a":1,"b":[2,3]}``), keys in the schema's order, and with the
escapes of :data:`ESCAPES` only. A character of a string then takes four bytes at the most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from steelyard.constraints.bounds.regex import CannotTell
from steelyard.constraints.bounds.schema_tree import (
    ENFORCED,
    Array,
    Choice,
    Fixed,
    Node,
    Object,
    Reference,
    Schema,
    Text,
    Tree,
    Whole,
    check,
    compact,
    read,
    shortest_whole,
)

__all__ = ["ESCAPES", "bound", "check", "longest", "shortest"]

ESCAPES = '"\\bfnrt'
"""What may follow a backslash in a string. Other control characters (``\\u0001``) cannot be written."""
EXACT_DIGITS = 15
"""Integers of so many digits are exact in the floats that schemas' limits are kept in."""


@dataclass(frozen=True)
class Limits:
    """What is put where a schema sets no limit."""

    characters: int
    items: int
    digits: int


def shortest(schema: Schema) -> str | None:
    """The shortest instance as text, None if there is none; :class:`CannotTell` if a part is not understood."""
    tree = read(schema)
    known: dict[str, str | None] = dict.fromkeys(tree.definitions)
    for _ in range(len(known) + 1):  # an instance nests a definition in itself only to get longer
        known = {target: _shortest(node, known) for target, node in tree.definitions.items()}
    return _shortest(tree.root, known)


def bound(schema: Schema, most: int) -> Schema:
    """The schema with limits where it sets none, as wide as they can be with no instance over ``most`` bytes.

    :class:`CannotTell` says why that cannot be done.
    """
    tree = read(schema)

    def fits(limits: Limits) -> bool:
        return _longest(tree.root, limits, tree, ()) <= most

    if not fits(Limits(1, 1, 1)):
        raise CannotTell(
            f"the longest sentence has {_longest(tree.root, Limits(1, 1, 1), tree, ())} bytes, even with free strings, "
            f"arrays and integers of one character, item and digit, but {most} fit"
        )
    even = _largest(lambda size: fits(_even(size)), most)
    limits = _even(even)
    limits = replace(limits, digits=_largest(lambda size: fits(replace(limits, digits=size)), EXACT_DIGITS))
    limits = replace(limits, characters=_largest(lambda size: fits(replace(limits, characters=size)), most))
    limits = replace(limits, items=_largest(lambda size: fits(replace(limits, items=size)), most))
    return _limited(tree.root, limits, tree)


def longest(schema: Schema) -> int:
    """Bytes of the longest instance; :class:`CannotTell` if there is no longest."""
    tree = read(schema)
    sizes = [_longest(tree.root, limits, tree, ()) for limits in (Limits(1, 1, 1), Limits(2, 2, 2))]
    if sizes[0] != sizes[1]:
        raise CannotTell("a string, an array or an integer has no upper limit")
    return sizes[0]


def _even(size: int) -> Limits:
    return Limits(size, size, min(size, EXACT_DIGITS))


def _largest(fits: Callable[[int], bool], high: int) -> int:
    """The largest number from 1 that fits, given that 1 does and that larger ones fit no better."""
    low = 1
    high = max(high, low)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _shortest(node: Node, known: Mapping[str, str | None]) -> str | None:
    if isinstance(node, Fixed):
        return min(node.texts, key=_size, default=None)
    if isinstance(node, Text):
        return compact(node.example)
    if isinstance(node, Whole):
        return shortest_whole(node)
    if isinstance(node, Choice):
        return min(_present(_shortest(option, known) for option in node.options), key=_size, default=None)
    if isinstance(node, Reference):
        return known[node.target]
    if isinstance(node, Array):
        return _shortest_array(node, known)
    if isinstance(node, Object):
        return _shortest_object(node, known)
    if node.shortest is None:
        raise CannotTell(node.reason)
    return node.shortest


def _shortest_array(node: Array, known: Mapping[str, str | None]) -> str | None:
    items = [_shortest(part, known) for part in node.first[: node.least]]
    if node.least > len(items):
        items += [None if node.rest is None else _shortest(node.rest, known)] * (node.least - len(items))
    whole = _present(items)
    return f"[{','.join(whole)}]" if len(whole) == len(items) else None


def _shortest_object(node: Object, known: Mapping[str, str | None]) -> str | None:
    members = {key: _shortest(part, known) for key, part in node.members.items() if key in node.required}
    if None in members.values() or node.required - set(members):
        return None
    lacking = node.least - len(members)
    if lacking > 0:
        others = {key: _shortest(part, known) for key, part in node.members.items() if key not in node.required}
        cheap = sorted((f"{compact(key)}:{text}" for key, text in others.items() if text is not None), key=_size)
        written = [f"{compact(key)}:{text}" for key, text in members.items()] + cheap[:lacking]
        return "{" + ",".join(written) + "}" if len(cheap) >= lacking else None
    return "{" + ",".join(f"{compact(key)}:{text}" for key, text in members.items()) + "}"


def _longest(node: Node, limits: Limits, tree: Tree, within: tuple[str, ...]) -> int:
    if isinstance(node, Fixed):
        return max(map(_size, node.texts), default=0)
    if isinstance(node, Text):
        return _longest_text(node, limits)
    if isinstance(node, Whole):
        low, high = _range(node, limits)
        return max(len(str(low)), len(str(high)), 2 if low < 0 <= high else 1)  # -0 is an integer too
    if isinstance(node, Choice):
        return max(_longest(option, limits, tree, within) for option in node.options)
    if isinstance(node, Reference):
        if node.target in within:
            raise CannotTell(f"$ref {node.target!r} contains itself")
        return _longest(tree.definitions[node.target], limits, tree, (*within, node.target))
    if isinstance(node, Array):
        return _longest_array(node, limits, tree, within)
    if isinstance(node, Object):
        if node.open_because:
            raise CannotTell(node.open_because)
        members = [_size(compact(key)) + 1 + _longest(part, limits, tree, within) for key, part in node.members.items()]
        return 2 + sum(members) + max(len(members) - 1, 0)
    raise CannotTell(node.reason)


def _longest_text(node: Text, limits: Limits) -> int:
    most = _most_characters(node, limits)
    by_length = math.inf if most is None else most * node.width
    return 2 + int(min(by_length, math.inf if node.longest is None else node.longest))


def _most_characters(node: Text, limits: Limits) -> int | None:
    if node.most is not None or node.longest is not None:
        return node.most
    return max(limits.characters, len(node.example))


def _range(node: Whole, limits: Limits) -> tuple[int, int]:
    widest = 10**limits.digits - 1
    low = node.least if node.least is not None else -widest if node.most is None else min(-widest, node.most)
    high = node.most if node.most is not None else widest if node.least is None else max(widest, node.least)
    room = node.step - 1  # so that a multiple of the step is within
    return (low - room if node.least is None else low, high + room if node.most is None else high)


def _longest_array(node: Array, limits: Limits, tree: Tree, within: tuple[str, ...]) -> int:
    count = _most_items(node, limits)
    items = [_longest(part, limits, tree, within) for part in node.first[:count]]
    if count > len(items) and node.rest is not None:
        items += [_longest(node.rest, limits, tree, within)] * (count - len(items))
    return 2 + sum(items) + max(len(items) - 1, 0)


def _most_items(node: Array, limits: Limits) -> int:
    if node.rest is None:
        return len(node.first) if node.most is None else min(node.most, len(node.first))
    return max(len(node.first) + limits.items, node.least) if node.most is None else node.most


def _limited(node: Node, limits: Limits, tree: Tree) -> Schema:
    """The schema again, with the limits in it and the definitions in place of references."""
    if isinstance(node, Text) and node.most is None and node.longest is None:
        return {**node.source, "maxLength": _most_characters(node, limits)}
    if isinstance(node, Whole) and (node.least is None or node.most is None):
        low, high = _range(node, limits)
        kept = {key: value for key, value in node.source.items() if not key.startswith("exclusiveM")}
        return {**kept, "minimum": low, "maximum": high}
    if isinstance(node, Choice):
        options = [_limited(option, limits, tree) for option in node.options]
        notes = {key: value for key, value in node.source.items() if key not in ENFORCED}
        return {**notes, "anyOf" if node.keyword == "type" else node.keyword: options}
    if isinstance(node, Reference):
        return _limited(tree.definitions[node.target], limits, tree)
    if isinstance(node, Array):
        first = [_limited(part, limits, tree) for part in node.first]
        rest = False if node.rest is None else _limited(node.rest, limits, tree)
        known = {"prefixItems": first} if first else {}
        return {**node.source, **known, "items": rest, "maxItems": _most_items(node, limits)}
    if isinstance(node, Object):
        properties = {key: _limited(part, limits, tree) for key, part in node.members.items()}
        return {**node.source, "properties": properties}
    return node.source


def _present(texts: Iterable[str | None]) -> list[str]:
    return [text for text in texts if text is not None]


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
