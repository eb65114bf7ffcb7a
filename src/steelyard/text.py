"""Make text from models, verifiers and datasets safe to store and print, and shorten it."""

from __future__ import annotations

LONGEST = 4000
"""Maximum length of a verdict's reason in characters: enough for a traceback and the end of the verifier's output."""
LINE = 80
"""Maximum length in characters of a value quoted in a message."""
ELLIPSIS = "…"


def printable(text: str) -> str:
    """Replace control characters and lone surrogates with visible symbols, so that the text can be printed anywhere.

    Line breaks are kept; tabs become spaces.
    """
    text = text.replace("\r\n", "\n").expandtabs(4)
    return "".join(c if c == "\n" or c.isprintable() else _visible(c) for c in text)


def one_line(text: str) -> str:
    """Make the name of a task, reward part or cause printable, without line breaks."""
    return printable(text).replace("\n", " ")


def bounded(text: str, longest: int = LONGEST) -> str:
    """Shorten text to its start and end, stating how many characters were omitted in between."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} {ELLIPSIS} {len(text) - 2 * half} characters left out {ELLIPSIS} {text[-half:]}"


def shortened(text: str, longest: int = LINE) -> str:
    """Shorten text to its start and an ellipsis."""
    return text if len(text) <= longest else text[: longest - 1] + ELLIPSIS


def ending(text: str, longest: int) -> str:
    """Shorten text to an ellipsis and its end."""
    return text if len(text) <= longest else ELLIPSIS + text[-longest:]


def shown(value: object, longest: int = LINE) -> str:
    """Quote a value for a message: its ``repr``, shortened."""
    return shortened(repr(value), longest)


def with_unit(number: int, noun: str) -> str:
    """Format a count with its unit, such as ``1 task`` or ``2 tasks``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else "\N{REPLACEMENT CHARACTER}"
