"""JSON schemas: the shortest instance, and bounds on what a schema leaves open so that the longest instance fits.

Instances are counted as they are sampled: compact (``{"a":1,"b":[2,3]}``), keys in the schema's order, and with the
escapes of :data:`ESCAPES` only. A character of a string then takes four bytes at the most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from steelyard.constraints.bounds.regex import MOST_CHARACTERS, CannotTell, TooLong, repeated
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
    """The shortest instance as text, None if there is none that a sample could hold; :class:`CannotTell` if a part is
    not understood.
    """
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
        return _longest(tree.root, limits, tree, (), {}) <= most

    least = _longest(tree.root, Limits(1, 1, 1), tree, (), {})
    if least > most:
        raise CannotTell(
            f"the longest sentence has {least} bytes, even with free strings, arrays and integers of one character, "
            f"item and digit, but {most} fit"
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
    sizes = [_longest(tree.root, limits, tree, (), {}) for limits in (Limits(1, 1, 1), Limits(2, 2, 2))]
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
        text = node.example if len(node.example) >= node.least else _repeated("a", node.least)
        return None if text is None else compact(text)
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
    whole = _present(items)
    if len(whole) < len(items):
        return None
    text = _joined(whole)
    if node.least > len(items):
        rest = None if node.rest is None else _shortest(node.rest, known)
        more = None if rest is None else _repeated(f",{rest}", node.least - len(items))
        text = None if text is None or more is None else (text + more).removeprefix(",")
    return None if text is None else f"[{text}]"


def _joined(texts: Sequence[str]) -> str | None:
    """The texts with commas between them, None if no sample could hold that."""
    return ",".join(texts) if sum(map(len, texts)) <= MOST_CHARACTERS else None


def _repeated(text: str, times: int) -> str | None:
    """The text so many times over, None if no sample could hold that."""
    try:
        return repeated(text, times)
    except TooLong:
        return None


def _shortest_object(node: Object, known: Mapping[str, str | None]) -> str | None:
    members = {key: _shortest(part, known) for key, part in node.members.items() if key in node.required}
    if None in members.values() or node.required - set(members):
        return None
    lacking, cheap = node.least - len(members), list[str]()
    if lacking > 0:
        others = {key: _shortest(part, known) for key, part in node.members.items() if key not in node.required}
        cheap = sorted((f"{compact(key)}:{text}" for key, text in others.items() if text is not None), key=_size)
        if len(cheap) < lacking:
            return None
    written = _joined([f"{compact(key)}:{text}" for key, text in members.items()] + cheap[: max(lacking, 0)])
    return None if written is None else f"{{{written}}}"


def _longest(node: Node, limits: Limits, tree: Tree, within: tuple[str, ...], known: dict[str, int]) -> int:
    """``known`` holds the definitions that were measured before: each may be referred to many times over."""
    if isinstance(node, Fixed):
        return max(map(_size, node.texts), default=0)
    if isinstance(node, Text):
        return _longest_text(node, limits)
    if isinstance(node, Whole):
        low, high = _range(node, limits)
        return max(len(str(low)), len(str(high)), 2 if low < 0 <= high else 1)  # -0 is an integer too
    if isinstance(node, Choice):
        return max(_longest(option, limits, tree, within, known) for option in node.options)
    if isinstance(node, Reference):
        if node.target in within:
            raise CannotTell(f"$ref {node.target!r} contains itself")
        if node.target not in known:
            definition = tree.definitions[node.target]
            known[node.target] = _longest(definition, limits, tree, (*within, node.target), known)
        return known[node.target]
    if isinstance(node, Array):
        return _longest_array(node, limits, tree, within, known)
    if isinstance(node, Object):
        if node.open_because:
            raise CannotTell(node.open_because)
        keys = sum(_size(compact(key)) + 1 for key in node.members)
        values = sum(_longest(part, limits, tree, within, known) for part in node.members.values())
        return 2 + keys + values + max(len(node.members) - 1, 0)
    raise CannotTell(node.reason)


def _longest_text(node: Text, limits: Limits) -> int:
    most = _most_characters(node, limits)
    by_length = math.inf if most is None else most * node.width
    return 2 + int(min(by_length, math.inf if node.longest is None else node.longest))


def _most_characters(node: Text, limits: Limits) -> int | None:
    if node.most is not None or node.longest is not None:
        return node.most
    return max(limits.characters, len(node.example), node.least)


def _range(node: Whole, limits: Limits) -> tuple[int, int]:
    widest = 10**limits.digits - 1
    low = node.least if node.least is not None else -widest if node.most is None else min(-widest, node.most)
    high = node.most if node.most is not None else widest if node.least is None else max(widest, node.least)
    room = node.step - 1  # so that a multiple of the step is within
    return (low - room if node.least is None else low, high + room if node.most is None else high)


def _longest_array(node: Array, limits: Limits, tree: Tree, within: tuple[str, ...], known: dict[str, int]) -> int:
    count = _most_items(node, limits)
    items = [_longest(part, limits, tree, within, known) for part in node.first[:count]]
    more = count - len(items) if node.rest is not None else 0
    rest = _longest(node.rest, limits, tree, within, known) if node.rest is not None and more > 0 else 0
    return 2 + sum(items) + more * rest + max(len(items) + more - 1, 0)


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
