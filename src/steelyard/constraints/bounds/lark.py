"""Lark grammars in the engine's dialect: finds the shortest sentence by fixpoint iteration over the rules.

Only constructs with a known length are parsed: literals, ranges, regular expressions, groups, repetitions, imports of
``common`` and embedded JSON schemas. Anything else raises :class:`LengthUnknown`. The engine's terminals are greedy
(``00`` is one ``INT``, not two), so the actual shortest sentence can be longer where terminals are adjacent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from steelyard.constraints.bounds import json_schema, regex
from steelyard.constraints.bounds.regex import MAX_CHARACTERS, LengthUnknown

COMMON = {
    **dict.fromkeys(("DIGIT", "HEXDIGIT", "INT", "SIGNED_INT", "NUMBER", "SIGNED_NUMBER"), "0"),
    **dict.fromkeys(("DECIMAL", "FLOAT", "SIGNED_FLOAT"), "0."),
    **dict.fromkeys(("LCASE_LETTER", "UCASE_LETTER", "LETTER", "WORD", "CNAME"), "a"),
    **dict.fromkeys(("WS", "WS_INLINE"), " "),
    **dict.fromkeys(("CR", "LF", "NEWLINE"), "\n"),
    "ESCAPED_STRING": '""',
}
"""The shortest text for each terminal of the ``common`` library."""

LEXEMES = re.compile(
    r"""
    (?P<skip>\s+|//[^\n]*|\#[^\n]*)
  | (?P<string>"(?:\\.|[^"\\])*"i?)
  | (?P<regex>/(?!/)(?:\\.|[^/\\\n])*/[imslux]*)
  | (?P<special><[^<>\n]*>)
  | (?P<directive>%[a-z]+)
  | (?P<name>[?!]*_*[A-Za-z][A-Za-z0-9_]*)
  | (?P<number>\d+)
  | (?P<sign>->|\.\.|[:|()\[\]{}*+?~.,&=@-])
    """,
    re.VERBOSE,
)

Token = tuple[str, Any]


@dataclass(frozen=True)
class Leaf:
    text: str


@dataclass(frozen=True)
class RuleName:
    name: str


@dataclass(frozen=True)
class Concatenation:
    parts: tuple[Part, ...]
    times: int = 1


@dataclass(frozen=True)
class Alternatives:
    options: tuple[Part, ...]


@dataclass(frozen=True)
class Unknown:
    reason: str


Part = Leaf | RuleName | Concatenation | Alternatives | Unknown


def shortest(grammar: str) -> str | None:
    """Return the shortest sentence, or None if every sentence is infinite or longer than any sample."""
    rules = _Parser(grammar).rules()
    if "start" not in rules:
        raise LengthUnknown("the grammar has no rule 'start'")
    known: dict[str, str | None] = {}
    while True:
        found = {name: _shortest(rule, known, rules) for name, rule in rules.items() if name in _reachable_rules(rules)}
        if found == known:
            return known["start"]
        known = found


def special_tokens(grammar: str) -> list[str]:
    """Return the special tokens in the grammar, such as ``<|im_start|>`` and ``<[5]>``."""
    return [str(value) for kind, value in _lexemes(grammar) if kind == "special"]


def _reachable_rules(rules: Mapping[str, Part]) -> set[str]:
    """Return the rules that are reachable from ``start``."""
    reached: set[str] = set()
    waiting: list[Part] = [RuleName("start")]
    while waiting:
        part = waiting.pop()
        if isinstance(part, RuleName) and part.name not in reached and part.name in rules:
            reached.add(part.name)
            waiting.append(rules[part.name])
        elif isinstance(part, Concatenation):
            waiting += part.parts
        elif isinstance(part, Alternatives):
            waiting += part.options
    return reached


def _shortest(part: Part, known: Mapping[str, str | None], rules: Mapping[str, Part]) -> str | None:
    if isinstance(part, Leaf):
        return part.text
    if isinstance(part, Unknown):
        raise LengthUnknown(part.reason)
    if isinstance(part, RuleName):
        if part.name not in rules:
            raise LengthUnknown(f"{part.name!r} is not defined in the grammar")
        return known.get(part.name)
    if isinstance(part, Concatenation):
        texts = [_shortest(inner, known, rules) for inner in part.parts]
        if None in texts or part.times * sum(map(len, cast("list[str]", texts))) > MAX_CHARACTERS:
            return None
        return "".join(cast("list[str]", texts)) * part.times
    texts = [_shortest(inner, known, rules) for inner in part.options]
    return min((text for text in texts if text is not None), key=lambda text: (len(text.encode()), text), default=None)


def _lexemes(grammar: str) -> list[Token]:
    """Split the grammar into tokens; a JSON object after ``%json`` or ``%llguidance`` is one token."""
    tokens: list[Token] = []
    place = 0
    while place < len(grammar):
        found = LEXEMES.match(grammar, place)
        if found is None:
            raise LengthUnknown(f"the grammar cannot be analysed at {grammar[place : place + 20]!r}")
        kind, place = str(found.lastgroup), found.end()
        if kind == "directive" and found[0] in ("%json", "%llguidance"):
            try:
                start = len(grammar) - len(grammar[place:].lstrip())
                value, place = json.JSONDecoder().raw_decode(grammar, start)
            except ValueError as error:
                raise LengthUnknown(f"{found[0]} is not followed by JSON: {error}") from None
            tokens.append((found[0], value))
        elif kind == "directive":
            end = grammar.find("\n", place)
            end = len(grammar) if end < 0 else end
            tokens.append((found[0], grammar[place:end].strip()))
            place = end
        elif kind != "skip":
            tokens.append((kind, found[0]))
    return tokens


class _Parser:
    """A recursive-descent parser over the tokens."""

    def __init__(self, grammar: str) -> None:
        self.tokens = [*_lexemes(grammar), ("end", "")]
        self.place = 0

    @property
    def current(self) -> Token:
        return self.tokens[self.place]

    def rules(self) -> dict[str, Part]:
        found: dict[str, Part] = {}
        while self.current[0] != "end":
            if self.current[0] == "%import":
                found |= _imported(self.current[1])
                self.place += 1
            elif self.current[0] in ("%ignore", "%llguidance"):
                self.place += 1
            else:
                name = self.head()
                found[name] = self.options()
        return found

    def head(self) -> str:
        """Parse ``name``, ``name.1`` or ``name[attribute=value]`` and the colon."""
        start = self.place
        after = self.after_head()
        if after is None:
            raise LengthUnknown(f"the grammar cannot be analysed at {self.tokens[start][1]!r}")
        self.place = after
        return str(self.tokens[start][1]).lstrip("?!")

    def after_head(self) -> int | None:
        """Return the position of the rule body if a rule starts here, else None."""
        place = self.place
        if self.tokens[place][0] != "name":
            return None
        place += 1
        if self.tokens[place] == ("sign", "["):
            while self.tokens[place] != ("sign", "]"):
                if self.tokens[place][0] == "end":
                    return None
                place += 1
            place += 1
        elif self.tokens[place] == ("sign", "."):
            place += 2
        return place + 1 if self.tokens[min(place, len(self.tokens) - 1)] == ("sign", ":") else None

    def take(self, sign: str) -> bool:
        if self.current == ("sign", sign):
            self.place += 1
            return True
        return False

    def options(self) -> Part:
        options = [self.concatenation()]
        while self.take("|"):
            options.append(self.concatenation())
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def concatenation(self) -> Part:
        parts: list[Part] = []
        while not self.at_end_of_concatenation():
            parts.append(self.repeated(self.atom()))
        if self.take("->"):
            self.place += 1
        return Concatenation(tuple(parts))

    def at_end_of_concatenation(self) -> bool:
        kind, value = self.current
        if kind == "sign":
            return value in ("|", ")", "]", "->")
        return kind in ("end", "%import", "%ignore", "%llguidance") or self.after_head() is not None

    def atom(self) -> Part:
        kind, value = self.current
        self.place += 1
        if kind == "string":
            return self.literal(str(value))
        if kind == "regex":
            return _regex(str(value))
        if kind == "name":
            return RuleName(str(value))
        if kind == "%json":
            return _json(value)
        if (kind, value) in (("sign", "("), ("sign", "[")):
            inner = self.options()
            if not self.take(")" if value == "(" else "]"):
                raise LengthUnknown(f"{value!r} in the grammar is not closed")
            return inner if value == "(" else Alternatives((inner, Leaf("")))
        return Unknown(f"{value!r} in the grammar cannot be analysed")

    def literal(self, written: str) -> Part:
        text = json.loads(written.removesuffix("i"), strict=False) if "\\x" not in written else _unescaped(written)
        if self.take(".."):
            self.place += 1
        return Leaf(text)

    def repeated(self, part: Part) -> Part:
        if self.take("*") or self.take("?"):
            return Alternatives((part, Leaf("")))
        if self.take("+"):
            return part
        if self.take("~"):
            minimum = self.number()
            if self.take(".."):
                self.number()
            return Concatenation((part,) if minimum else (), minimum)
        if self.take("{"):
            minimum = self.number() if self.current[0] == "number" else 0
            while not self.take("}"):
                self.place += 1
                if self.current[0] == "end":
                    return Unknown("'{' in the grammar is not closed")
            return Concatenation((part,) if minimum else (), minimum)
        if self.take("&"):
            self.atom()
            return Unknown("'&' in the grammar cannot be analysed")
        return part

    def number(self) -> int:
        kind, value = self.current
        if kind != "number":
            raise LengthUnknown(f"a number is missing before {value!r} in the grammar")
        self.place += 1
        return int(value)


def _imported(what: str) -> dict[str, Part]:
    """Parse ``common.INT``, ``common.INT -> NUMBER`` and ``common (INT, WS)``."""
    path, _, alias = (part.strip() for part in what.partition("->"))
    several = re.fullmatch(r"common\s*\(([^)]*)\)", path)
    names = [name.strip() for name in several[1].split(",")] if several else [path.rpartition(".")[2]]
    leaves: dict[str, Part] = {}
    for name in names:
        known = COMMON.get(name) if path.startswith("common") else None
        leaves[alias or name] = Unknown(f"%import {what} cannot be analysed") if known is None else Leaf(known)
    return leaves


def _regex(written: str) -> Part:
    body, _, flags = written[1:].rpartition("/")
    kept = "".join(sorted(set(flags) & set("ims")))
    try:
        return Leaf(regex.shortest((f"(?{kept})" if kept else "") + body.replace("\\/", "/")))
    except LengthUnknown as reason:
        return Unknown(str(reason))


def _json(schema: object) -> Part:
    try:
        text = json_schema.shortest(json_schema.check(schema))
    except LengthUnknown as reason:
        return Unknown(str(reason))
    return Unknown("a JSON schema has no instance") if text is None else Leaf(text)


def _unescaped(written: str) -> str:
    return re.sub(r"\\x([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), written.removesuffix("i"))[1:-1]
