"""JSON schemas: finds the shortest instance and limits open-ended parts so that the longest instance fits.

Instances are measured as they are sampled: compact (``{"a":1,"b":[2,3]}``), with keys in the schema's order and only
the escapes of :data:`ESCAPES`. Each character of a string then takes at most four bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from steelyard.constraints.bounds.regex import MAX_CHARACTERS, LengthUnknown, TooLong, repeated
from steelyard.constraints.bounds.schema_tree import (
    ENFORCED,
    Array,
    Choice,
    Fixed,
    Integer,
    Node,
    Object,
    Reference,
    Schema,
    Text,
    Tree,
    check,
    compact,
    read,
    shortest_integer,
)

__all__ = ["ESCAPES", "bound", "check", "longest", "shortest"]

ESCAPES = '"\\bfnrt'
"""Characters allowed after a backslash in a string. Other control characters (``\\u0001``) cannot be written."""
EXACT_DIGITS = 15
"""Integers with up to this many digits are exact as floats, the type in which schema limits are stored."""


@dataclass(frozen=True)
class LengthLimits:
    """Limits for the open-ended parts of a schema."""

    characters: int
    items: int
    digits: int


def shortest(schema: Schema) -> str | None:
    """Return the shortest instance as text, or None if no instance fits in a sample.

    Raise :class:`LengthUnknown` if a part cannot be analysed.
    """
    tree = read(schema)
    known: dict[str, str | None] = dict.fromkeys(tree.definitions)
    for _ in range(len(known) + 1):  # recursion can only make instances longer
        known = {target: _shortest(node, known) for target, node in tree.definitions.items()}
    return _shortest(tree.root, known)


def bound(schema: Schema, max_bytes: int) -> Schema:
    """Limit the open-ended parts of a schema as loosely as possible so that every instance fits in ``max_bytes``.

    Raise :class:`LengthUnknown` with the reason if that is impossible.
    """
    tree = read(schema)

    def fits(limits: LengthLimits) -> bool:
        return _longest(tree.root, limits, tree, (), {}) <= max_bytes

    smallest = _longest(tree.root, LengthLimits(1, 1, 1), tree, (), {})
    if smallest > max_bytes:
        raise LengthUnknown(
            f"the longest sentence has {smallest} bytes even if open strings, arrays and integers have one character, "
            f"item and digit, more than {max_bytes}"
        )
    even = _largest(lambda size: fits(_equal_limits(size)), max_bytes)
    limits = _equal_limits(even)
    limits = replace(limits, digits=_largest(lambda size: fits(replace(limits, digits=size)), EXACT_DIGITS))
    limits = replace(limits, characters=_largest(lambda size: fits(replace(limits, characters=size)), max_bytes))
    limits = replace(limits, items=_largest(lambda size: fits(replace(limits, items=size)), max_bytes))
    return _limited(tree.root, limits, tree)


def longest(schema: Schema) -> int:
    """Return the size in bytes of the longest instance, or raise :class:`LengthUnknown` if there is none."""
    tree = read(schema)
    sizes = [_longest(tree.root, limits, tree, (), {}) for limits in (LengthLimits(1, 1, 1), LengthLimits(2, 2, 2))]
    if sizes[0] != sizes[1]:
        raise LengthUnknown("a string, an array or an integer has no upper limit")
    return sizes[0]


def _equal_limits(size: int) -> LengthLimits:
    return LengthLimits(size, size, min(size, EXACT_DIGITS))


def _largest(fits: Callable[[int], bool], high: int) -> int:
    """Find the largest number that fits by bisection; 1 must fit, and ``fits`` must be monotonic."""
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
        text = node.example if len(node.example) >= node.minimum else _repeated("a", node.minimum)
        return None if text is None else compact(text)
    if isinstance(node, Integer):
        return shortest_integer(node)
    if isinstance(node, Choice):
        return min(_present(_shortest(option, known) for option in node.options), key=_size, default=None)
    if isinstance(node, Reference):
        return known[node.target]
    if isinstance(node, Array):
        return _shortest_array(node, known)
    if isinstance(node, Object):
        return _shortest_object(node, known)
    if node.shortest is None:
        raise LengthUnknown(node.reason)
    return node.shortest


def _shortest_array(node: Array, known: Mapping[str, str | None]) -> str | None:
    items = [_shortest(part, known) for part in node.first[: node.minimum]]
    whole = _present(items)
    if len(whole) < len(items):
        return None
    text = _joined(whole)
    if node.minimum > len(items):
        rest = None if node.rest is None else _shortest(node.rest, known)
        more = None if rest is None else _repeated(f",{rest}", node.minimum - len(items))
        text = None if text is None or more is None else (text + more).removeprefix(",")
    return None if text is None else f"[{text}]"


def _joined(texts: Sequence[str]) -> str | None:
    """Join the strings with commas, or return None if the result is longer than any sample."""
    return ",".join(texts) if sum(map(len, texts)) <= MAX_CHARACTERS else None


def _repeated(text: str, times: int) -> str | None:
    """Repeat the text, or return None if the result is longer than any sample."""
    try:
        return repeated(text, times)
    except TooLong:
        return None


def _shortest_object(node: Object, known: Mapping[str, str | None]) -> str | None:
    members = {key: _shortest(part, known) for key, part in node.members.items() if key in node.required}
    if None in members.values() or node.required - set(members):
        return None
    lacking, cheap = node.minimum - len(members), list[str]()
    if lacking > 0:
        others = {key: _shortest(part, known) for key, part in node.members.items() if key not in node.required}
        cheap = sorted((f"{compact(key)}:{text}" for key, text in others.items() if text is not None), key=_size)
        if len(cheap) < lacking:
            return None
    written = _joined([f"{compact(key)}:{text}" for key, text in members.items()] + cheap[: max(lacking, 0)])
    return None if written is None else f"{{{written}}}"


def _longest(node: Node, limits: LengthLimits, tree: Tree, within: tuple[str, ...], known: dict[str, int]) -> int:
    """Return the size in bytes of the longest instance. ``known`` caches definitions that are referenced repeatedly."""
    if isinstance(node, Fixed):
        return max(map(_size, node.texts), default=0)
    if isinstance(node, Text):
        return _longest_text(node, limits)
    if isinstance(node, Integer):
        low, high = _range(node, limits)
        return max(len(str(low)), len(str(high)), 2 if low < 0 <= high else 1)  # -0 is a valid integer
    if isinstance(node, Choice):
        return max(_longest(option, limits, tree, within, known) for option in node.options)
    if isinstance(node, Reference):
        if node.target in within:
            raise LengthUnknown(f"$ref {node.target!r} contains itself")
        if node.target not in known:
            definition = tree.definitions[node.target]
            known[node.target] = _longest(definition, limits, tree, (*within, node.target), known)
        return known[node.target]
    if isinstance(node, Array):
        return _longest_array(node, limits, tree, within, known)
    if isinstance(node, Object):
        if node.open_because:
            raise LengthUnknown(node.open_because)
        keys = sum(_size(compact(key)) + 1 for key in node.members)
        values = sum(_longest(part, limits, tree, within, known) for part in node.members.values())
        return 2 + keys + values + max(len(node.members) - 1, 0)
    raise LengthUnknown(node.reason)


def _longest_text(node: Text, limits: LengthLimits) -> int:
    maximum = _max_characters(node, limits)
    by_length = math.inf if maximum is None else maximum * node.width
    return 2 + int(min(by_length, math.inf if node.longest is None else node.longest))


def _max_characters(node: Text, limits: LengthLimits) -> int | None:
    if node.maximum is not None or node.longest is not None:
        return node.maximum
    return max(limits.characters, len(node.example), node.minimum)


def _range(node: Integer, limits: LengthLimits) -> tuple[int, int]:
    widest = 10**limits.digits - 1
    low = node.minimum if node.minimum is not None else -widest if node.maximum is None else min(-widest, node.maximum)
    high = node.maximum if node.maximum is not None else widest if node.minimum is None else max(widest, node.minimum)
    room = node.step - 1  # ensures that the range contains a multiple of the step
    return (low - room if node.minimum is None else low, high + room if node.maximum is None else high)


def _longest_array(
    node: Array, limits: LengthLimits, tree: Tree, within: tuple[str, ...], known: dict[str, int]
) -> int:
    count = _max_items(node, limits)
    items = [_longest(part, limits, tree, within, known) for part in node.first[:count]]
    more = count - len(items) if node.rest is not None else 0
    rest = _longest(node.rest, limits, tree, within, known) if node.rest is not None and more > 0 else 0
    return 2 + sum(items) + more * rest + max(len(items) + more - 1, 0)


def _max_items(node: Array, limits: LengthLimits) -> int:
    if node.rest is None:
        return len(node.first) if node.maximum is None else min(node.maximum, len(node.first))
    return max(len(node.first) + limits.items, node.minimum) if node.maximum is None else node.maximum


def _limited(node: Node, limits: LengthLimits, tree: Tree) -> Schema:
    """Return the schema with the limits added and references replaced by their definitions."""
    if isinstance(node, Text) and node.maximum is None and node.longest is None:
        return {**node.source, "maxLength": _max_characters(node, limits)}
    if isinstance(node, Integer) and (node.minimum is None or node.maximum is None):
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
        return {**node.source, **known, "items": rest, "maxItems": _max_items(node, limits)}
    if isinstance(node, Object):
        properties = {key: _limited(part, limits, tree) for key, part in node.members.items()}
        return {**node.source, "properties": properties}
    return node.source


def _present(texts: Iterable[str | None]) -> list[str]:
    return [text for text in texts if text is not None]


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
