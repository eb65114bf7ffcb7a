"""Text from outside (a model, a verifier, a data set) made safe to store and to print, and cut to the room there is."""

from __future__ import annotations

LONGEST = 4000
"""Characters of a reason that are kept: enough for a traceback and the end of what a verifier printed."""
LINE = 80
"""Characters of a value in a message."""
ELLIPSIS = "…"


def printable(text: str) -> str:
    """The text with control characters and lone surrogates shown and not obeyed (line breaks stay, tabs become
    spaces). The result can be encoded and printed anywhere.
    """
    text = text.replace("\r\n", "\n").expandtabs(4)
    return "".join(c if c == "\n" or c.isprintable() else _visible(c) for c in text)


def one_line(text: str) -> str:
    """A name (of a task, a part, a cause) as printable text without line breaks."""
    return printable(text).replace("\n", " ")


def bounded(text: str, longest: int = LONGEST) -> str:
    """The text, or its start and its end with the number of characters left out between."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} {ELLIPSIS} {len(text) - 2 * half} characters left out {ELLIPSIS} {text[-half:]}"


def shortened(text: str, longest: int = LINE) -> str:
    """The text, or its start and an ellipsis."""
    return text if len(text) <= longest else text[: longest - 1] + ELLIPSIS


def ending(text: str, longest: int) -> str:
    """The text, or an ellipsis and its end."""
    return text if len(text) <= longest else ELLIPSIS + text[-longest:]


def shown(value: object, longest: int = LINE) -> str:
    """A value as Python writes it, for a message."""
    return shortened(repr(value), longest)


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else "\N{REPLACEMENT CHARACTER}"
