"""Parser for PyR@TE model files: YAML flow style with unquoted formulas and optional commas."""

from __future__ import annotations

import re
from collections.abc import Iterator

from steelyard.errors import DataError

OPEN, CLOSE = "([{", ")]}"
Entries = dict[str, str]


def without_comments(text: str) -> str:
    return "\n".join(line.partition("#")[0] for line in text.splitlines())


def entries(text: str) -> Entries:
    """Parse the ``name: value`` entries of a file or a brace expression; values stay strings."""
    found: Entries = {}
    for entry in _split(text):
        name, colon, value = _part(entry)
        if colon:
            found[name.strip().strip("'\"")] = value.strip()
        elif entry.strip() not in ("", "---"):
            raise DataError(f"model file: {entry.strip()!r} has no colon; write name: value")
    return found


def block(value: str) -> Entries:
    """Parse the entries of a value in braces; an empty value has none."""
    text = value.strip()
    if not text:
        return {}
    if text[0] != "{" or text[-1] != "}":
        raise DataError(f"model file: {text[:60]!r} must be in braces")
    return entries(text[1:-1])


def items(value: str) -> list[str]:
    """Return the items of a list or brace expression; a bare value is a single item."""
    text = value.strip()
    if text[:1] in "[{" and text[-1:] in "]}" and text:
        return [part.strip() for part in _split(text[1:-1]) if part.strip()]
    return [text]


def _split(text: str) -> Iterator[str]:
    """Split at commas and line breaks outside brackets."""
    depth, start = 0, 0
    for place, sign in enumerate(text):
        if sign in OPEN:
            depth += 1
        elif sign in CLOSE:
            depth -= 1
            if depth < 0:
                raise DataError(f"model file: unmatched {sign!r} near {text[max(0, place - 30) : place + 1]!r}")
        elif sign in ",\n" and depth == 0:
            if text[start:place].strip():
                yield text[start:place]
            start = place + 1
    if depth:
        raise DataError("model file: a bracket is not closed; close it")
    if text[start:].strip():
        yield text[start:]


def _part(entry: str) -> tuple[str, str, str]:
    """Split into name, colon and value at the first colon outside brackets."""
    depth = 0
    for place, sign in enumerate(entry):
        depth += (sign in OPEN) - (sign in CLOSE)
        if sign == ":" and depth == 0:
            return entry[:place], ":", entry[place + 1 :]
    return entry, "", ""


def names(formula: str) -> Iterator[str]:
    """Yield the names in a formula, without indices; a factor to the power k is repeated k times."""
    text = re.sub(r"\[[^\]]*\]", " ", formula)
    while match := re.search(r"\(([^()]*)\)\s*\*\*\s*(\d+)", text):
        text = text[: match.start()] + " ".join([match[1]] * int(match[2])) + text[match.end() :]
    while match := re.search(r"(\b[A-Za-z_]\w*)\s*\*\*\s*(\d+)", text):
        text = text[: match.start()] + " ".join([match[1]] * int(match[2])) + text[match.end() :]
    yield from re.findall(r"[A-Za-z_]\w*", text)
