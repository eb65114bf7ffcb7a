"""What one hole can stand for: a character, or a token of the model that fills it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from steelyard.errors import ConfigError
from steelyard.text import shortened, shown

PLAIN = "\n" + "".join(map(chr, range(32, 127)))
"""Printable ASCII and the line break."""
INDENTED = "def f(x):\n    return  x + 1\n\n"


def cut(text: str, tokenizer: str = "") -> Sequence[str]:
    """The pieces of a text that can be holes: its characters, or the tokens of ``tokenizer``."""
    if not tokenizer:
        return text
    return tokens(open_tokenizer(tokenizer), text)


def tokens(tokenizer: Any, text: str) -> list[str]:
    """The texts of the tokens; they make the whole again if the tokenizer keeps it and no character is divided."""
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return [tokenizer.decode([token], skip_special_tokens=False) for token in ids]


@lru_cache(maxsize=4)
def open_tokenizer(where: str) -> Any:
    """The tokenizer of a model folder or of the hub, which must keep plain text as it is."""
    from tokenizers import Tokenizer

    file = Path(where) / "tokenizer.json"
    if Path(where).is_dir() and not file.is_file():
        raise ConfigError(f"infill: tokenizer={where!r} is a folder without a tokenizer.json")
    try:
        found = Tokenizer.from_file(str(file)) if file.is_file() else Tokenizer.from_pretrained(where)
    except Exception as error:  # noqa: BLE001 - the library raises no class of its own
        raise ConfigError(f"infill: tokenizer={where!r} cannot be opened: {shortened(str(error), 200)}") from None
    found.encode_special_tokens = True
    for text in (INDENTED, PLAIN):
        if (kept := "".join(tokens(found, text))) != text:
            raise ConfigError(
                f"infill: tokenizer={where!r} makes {shown(kept, 60)} of {shown(text, 60)}; texts with holes need "
                f"one that keeps them as they are: of characters, or byte-level BPE as RoBERTa and ModernBERT have it"
            )
    return found
