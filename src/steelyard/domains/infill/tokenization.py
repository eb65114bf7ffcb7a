"""Split texts into the units that holes replace: characters, or tokens of the model that fills them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from steelyard.errors import ConfigError
from steelyard.text import shortened, shown

PRINTABLE_ASCII = "\n" + "".join(map(chr, range(32, 127)))
"""Printable ASCII characters and the newline."""
INDENTED_CODE = "def f(x):\n    return  x + 1\n\n"


def split_text(text: str, tokenizer: str = "") -> Sequence[str]:
    """Split text into characters, or into the tokens of ``tokenizer``."""
    if not tokenizer:
        return text
    return token_texts(open_tokenizer(tokenizer), text)


def token_texts(tokenizer: Any, text: str) -> list[str]:
    """Return the text of each token. Joined together, the texts equal the input if the tokenizer is lossless at the
    character level.
    """
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return [tokenizer.decode([token], skip_special_tokens=False) for token in ids]


@lru_cache(maxsize=4)
def open_tokenizer(where: str) -> Any:
    """Load the tokenizer from a model folder or hub id. The tokenizer must reproduce plain text exactly."""
    from tokenizers import Tokenizer

    file = Path(where) / "tokenizer.json"
    if Path(where).is_dir() and not file.is_file():
        raise ConfigError(f"infill: tokenizer={where!r} is a folder without tokenizer.json; pass the folder of a model")
    try:
        found = Tokenizer.from_file(str(file)) if file.is_file() else Tokenizer.from_pretrained(where)
    except Exception as error:  # noqa: BLE001 - the library raises plain Exception
        raise ConfigError(
            f"infill: tokenizer={where!r} cannot be loaded ({shortened(str(error), 200)}); pass a model "
            "folder or a hub id"
        ) from None
    found.encode_special_tokens = True
    for text in (INDENTED_CODE, PRINTABLE_ASCII):
        if (kept := "".join(token_texts(found, text))) != text:
            raise ConfigError(
                f"infill: tokenizer={where!r} turns {shown(text, 60)} into {shown(kept, 60)}; choose a lossless one, "
                f"such as a character tokenizer or byte-level BPE (RoBERTa, ModernBERT)"
            )
    return found
