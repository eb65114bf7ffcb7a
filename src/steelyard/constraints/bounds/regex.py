r"""Regular expressions: finds the shortest matching text and the size of the longest one.

Patterns are parsed by Python's own parser. Syntax that Python reads differently from the engine (Rust's ``\p{L}`` or
nested classes) raises :class:`LengthUnknown`.
"""

from __future__ import annotations

import importlib
import re
import string
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

Weigh = Callable[[int], int]
"""Returns the size of a code point in bytes."""

MAX_CHARACTERS = 1 << 22
"""Longer than any sample; shortest texts beyond this length are not constructed."""
TOO_LONG = f"its shortest sentence is longer than {MAX_CHARACTERS} characters; lower its minimum counts"
EDGES = (0x00, 0x1F, 0x22, 0x5C, 0x7F, 0x7FF, 0xFFFF, 0x10FFFF)
"""The heaviest code point of any range is one of its endpoints or one of these, both in UTF-8 and in JSON strings."""
COMMON_CHARACTERS = "a0 A_-.,!" + string.printable + "\x00\u00e9\u4e00"
CATEGORIES = {
    "CATEGORY_DIGIT": re.compile(r"\d", re.ASCII),
    "CATEGORY_NOT_DIGIT": re.compile(r"\D", re.ASCII),
    "CATEGORY_SPACE": re.compile(r"\s", re.ASCII),
    "CATEGORY_NOT_SPACE": re.compile(r"\S", re.ASCII),
    "CATEGORY_WORD": re.compile(r"\w", re.ASCII),
    "CATEGORY_NOT_WORD": re.compile(r"\W", re.ASCII),
}


class LengthUnknown(Exception):  # noqa: N818 - an answer, not a failure
    """The length is unlimited or cannot be analysed; the message gives the reason."""


class TooLong(LengthUnknown):
    """Even the shortest text is longer than any sample."""


def utf8_bytes(code: int) -> int:
    return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4


@dataclass(frozen=True)
class Pattern:
    """A pattern parsed by Python."""

    text: str
    items: tuple[tuple[str, Any], ...]
    ignore_case: bool

    @property
    def anchored(self) -> bool:
        """Whether the pattern is anchored at both ends; only then does a JSON schema match it against the complete
        text.
        """
        if len(self.items) < 2:
            return False
        first, last = self.items[0], self.items[-1]
        return (first[0], str(first[1])) in STARTS and (last[0], str(last[1])) in ENDS


STARTS = (("AT", "AT_BEGINNING"), ("AT", "AT_BEGINNING_STRING"))
ENDS = (("AT", "AT_END"), ("AT", "AT_END_STRING"))


def read(pattern: str) -> Pattern:
    """Parse a pattern; raise :class:`LengthUnknown` if Python cannot parse it or disagrees with the engine."""
    parser: Any = importlib.import_module("re._parser")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nested classes and set operations differ between engines
            tree = parser.parse(pattern)
    except (re.error, Warning, OverflowError, RecursionError) as error:
        raise LengthUnknown(f"the pattern {pattern!r} cannot be analysed: {error}") from None
    return Pattern(pattern, _items(tree), re.search(r"\(\?[a-zA-Z]*i", pattern) is not None)


def shortest(pattern: str) -> str:
    """Return the text with the fewest bytes that matches the complete pattern."""
    return _shortest(read(pattern).items)


def longest(pattern: str, weigh: Weigh = utf8_bytes) -> int:
    """Return the weight of the heaviest text that matches the complete pattern."""
    found = read(pattern)
    return _longest(found.items, _with_case(weigh, found))


def widest(pattern: str, weigh: Weigh = utf8_bytes) -> int:
    """Return the weight of the heaviest character in any matching text."""
    found = read(pattern)
    weigh = _with_case(weigh, found)
    return max((_heaviest(name, argument, weigh) for name, argument in _atoms(found.items)), default=0)


def literals(pattern: str) -> str:
    """Return the literal characters of the pattern, outside classes."""
    return "".join(chr(argument) for name, argument in _atoms(read(pattern).items) if name == "LITERAL")


def classes(pattern: str) -> list[Callable[[str], bool]]:
    """Return a membership test for each character class in the pattern."""
    atoms = [(name, argument) for name, argument in _atoms(read(pattern).items) if name != "LITERAL"]
    return [partial(_matches, name, argument) for name, argument in atoms]


def _with_case(weigh: Weigh, pattern: Pattern) -> Weigh:
    """Account for longer case variants of letters: the Kelvin sign matches k when case is ignored."""
    return (lambda code: max(weigh(code), 3)) if pattern.ignore_case else weigh


def _items(tree: Iterable[Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((str(name), argument) for name, argument in tree)


def _shortest(items: tuple[tuple[str, Any], ...]) -> str:
    text = ""
    for name, argument in items:
        text += _shortest_of(name, argument)
        if len(text) > MAX_CHARACTERS:
            raise TooLong(TOO_LONG)
    return text


def _shortest_of(name: str, argument: Any) -> str:
    if name == "LITERAL":
        return chr(argument)
    if name in ("NOT_LITERAL", "ANY", "IN"):
        return _any_character(name, argument)
    if name == "AT":
        return ""
    if name == "BRANCH":
        return _shortest_branch([_items(branch) for branch in argument[1]])
    if name in ("SUBPATTERN", "ATOMIC_GROUP"):
        return _shortest(_inner(name, argument))
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        minimum, _, body = argument
        return repeated(_shortest(_items(body)), int(minimum)) if minimum else ""
    raise LengthUnknown(f"{name.lower()} in a pattern cannot be analysed")


def _shortest_branch(branches: list[tuple[tuple[str, Any], ...]]) -> str:
    """Return the shortest branch; overlong branches are skipped."""
    texts: list[str] = []
    for branch in branches:
        with suppress(TooLong):
            texts.append(_shortest(branch))
    if not texts:
        raise TooLong(TOO_LONG)
    return min(texts, key=_size)


def repeated(text: str, times: int) -> str:
    """Repeat the text; raise :class:`TooLong` before allocating too much memory."""
    if len(text) * times > MAX_CHARACTERS:
        raise TooLong(TOO_LONG)
    return text * times


def _longest(items: tuple[tuple[str, Any], ...], weigh: Weigh) -> int:
    return sum(_longest_of(name, argument, weigh) for name, argument in items)


def _longest_of(name: str, argument: Any, weigh: Weigh) -> int:
    if name in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
        return _heaviest(name, argument, weigh)
    if name == "AT":
        return 0
    if name == "BRANCH":
        return max(_longest(_items(branch), weigh) for branch in argument[1])
    if name in ("SUBPATTERN", "ATOMIC_GROUP"):
        return _longest(_inner(name, argument), weigh)
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        _, maximum, body = argument
        once = _longest(_items(body), weigh)
        if once and str(maximum) == "MAXREPEAT":
            raise LengthUnknown("a repeat in a pattern has no upper limit")
        return once * int(maximum) if once else 0
    raise LengthUnknown(f"{name.lower()} in a pattern cannot be analysed")


def _atoms(items: tuple[tuple[str, Any], ...]) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a pattern that match one character."""
    for name, argument in items:
        if name in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            yield name, argument
        elif name == "BRANCH":
            for branch in argument[1]:
                yield from _atoms(_items(branch))
        elif name in ("SUBPATTERN", "ATOMIC_GROUP"):
            yield from _atoms(_inner(name, argument))
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            yield from _atoms(_items(argument[2]))
        elif name != "AT":
            raise LengthUnknown(f"{name.lower()} in a pattern cannot be analysed")


def _inner(name: str, argument: Any) -> tuple[tuple[str, Any], ...]:
    return _items(argument[-1] if name == "SUBPATTERN" else argument)


def _any_character(name: str, argument: Any) -> str:
    found = next((character for character in _examples(name, argument) if _matches(name, argument, character)), None)
    if found is None:
        raise LengthUnknown("a character class has no common character")
    return found


def _examples(name: str, argument: Any) -> str:
    """Return candidate characters, shortest in UTF-8 first."""
    ends = ""
    if name == "IN":
        for kind, value in _items(argument):
            ends += chr(value) if kind == "LITERAL" else chr(value[0]) if kind == "RANGE" else ""
    return "".join(sorted(COMMON_CHARACTERS + ends, key=_size))


def _matches(name: str, argument: Any, character: str) -> bool:
    if name == "ANY":
        return character != "\n"
    if name == "NOT_LITERAL":
        return ord(character) != argument
    members = _items(argument)
    negated = bool(members) and members[0][0] == "NEGATE"
    return negated != any(_is_member(kind, value, character) for kind, value in members[negated:])


def _is_member(kind: str, value: Any, character: str) -> bool:
    if kind == "LITERAL":
        return ord(character) == value
    if kind == "RANGE":
        low, high = cast("tuple[int, int]", value)
        return low <= ord(character) <= high
    category = CATEGORIES.get(str(value))
    if category is None:
        raise LengthUnknown(f"{value} in a pattern cannot be analysed")
    return category.match(character) is not None


def _heaviest(name: str, argument: Any, weigh: Weigh) -> int:
    """Return the weight of the heaviest character of a class; a negated class may contain any character."""
    if name == "LITERAL":
        return weigh(argument)
    members = _items(argument) if name == "IN" else ()
    if name != "IN" or (members and members[0][0] == "NEGATE"):
        return max(weigh(code) for code in EDGES)
    heaviest = 0
    for kind, value in members:
        if kind == "LITERAL":
            codes = [int(value)]
        elif kind == "RANGE":
            low, high = cast("tuple[int, int]", value)
            codes = [low, high, *(code for code in EDGES if low <= code <= high)]
        else:
            codes = _codes_of_category(str(value))
        heaviest = max(heaviest, *(weigh(code) for code in codes))
    return heaviest


def _codes_of_category(name: str) -> list[int]:
    """Return code points of a category, including the heaviest. In JSON schemas, only whitespace covers Unicode."""
    if "NOT_" in name or name not in CATEGORIES:
        return list(EDGES)
    wide = [0x3000] if name == "CATEGORY_SPACE" else []
    return [*(code for code in range(0x80) if CATEGORIES[name].match(chr(code))), *wide]


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
