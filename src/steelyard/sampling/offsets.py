"""Where each token of a completion starts in its text, recorded when the text is assembled.

The start of a token is the length of the text that all tokens before it give. Decoding every prefix takes time that
grows with the square of the length. Almost every token adds the same characters wherever it stands after another, so
their number is looked up. A token that holds a part of a character, or that changes with its neighbours, is decoded
together with the few tokens before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steelyard.types import IntArray

CONTEXT = 8
"""Tokens before one that can change what it adds: a character of UTF-8 has at most 4 bytes, so 4 tokens."""
INCOMPLETE = "\N{REPLACEMENT CHARACTER}"
"""What stands in a text for bytes that are not, or not yet, a character."""


class TextOffsets:
    """Reads completions of one tokenizer; what tokens add is remembered between samples."""

    def __init__(self, tokenizer: Any, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        id_of: dict[str, int] = tokenizer.get_vocab()
        self._bytes = frozenset(id_of[name] for byte in range(256) if (name := f"<0x{byte:02X}>") in id_of)
        """Tokens of single bytes (sentencepiece). A run of them is text only if the whole run is."""
        self._added: dict[int, int | None] = {}
        """Characters that a token adds behind another; None: it depends on the others."""
        self._neighbour: int | None = None

    def read(self, ids: Sequence[int]) -> tuple[str, IntArray]:
        """The text of a completion, and the offset at which each of its tokens starts."""
        text, context = self._decode(ids), CONTEXT
        added = self._usually_added(ids)
        while sum(added) != len(text):  # a tokenizer that looks further; the whole text is context enough
            added = [self._added_in_context(ids, place, context) for place in range(len(ids))]
            context *= 2
        return text, np.cumsum([0, *added])[:-1].astype(np.int32)

    def _usually_added(self, ids: Sequence[int]) -> list[int]:
        added: list[int] = []
        behind_text = False
        for place, token in enumerate(ids):
            length = self._look_up(token) if behind_text else None
            added.append(self._added_in_context(ids, place, CONTEXT) if length is None else length)
            behind_text = behind_text or added[-1] > 0
        return added

    def _look_up(self, token: int) -> int | None:
        if token not in self._added:
            if self._neighbour is None and not self._is_plain(self._decode([token])):
                return None
            self._neighbour = token if self._neighbour is None else self._neighbour
            alone, both = self._decode([self._neighbour]), self._decode([self._neighbour, token])
            plain = both.startswith(alone) and INCOMPLETE not in both
            self._added[token] = len(both) - len(alone) if plain else None
        return self._added[token]

    def _added_in_context(self, ids: Sequence[int], place: int, context: int) -> int:
        start = max(0, place - context)
        while start and ids[start] in self._bytes:
            start -= 1
        before = len(self._decode(ids[start:place])) if start < place else 0
        return len(self._decode(ids[start : place + 1])) - before

    @staticmethod
    def _is_plain(text: str) -> bool:
        return bool(text.strip()) and INCOMPLETE not in text
