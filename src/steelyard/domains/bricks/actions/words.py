"""Texts of words that say bricks: the word of a part ends each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from steelyard.domains.bricks.parts import Library
from steelyard.domains.bricks.structure import World
from steelyard.domains.bricks.text import Decode, Reading, placed, with_floating

PART = re.compile(r"\d+x\d+", re.ASCII)
WORD = re.compile(r"\S+")
NUMBER = r"(\d{1,9})"
SIGNED = r"([+-]\d{1,9})"


class Piece(NamedTuple):
    """The words of one brick, and where the last of them ends in the text."""

    words: str
    end: int


def part_words(library: Library) -> tuple[str, ...]:
    return tuple(f"{h}x{w}" for h, w in library.dimensions)


def pieces(text: str) -> Iterator[Piece]:
    """The text cut behind each word that names a part; what comes behind the last one is a piece too."""
    words, end = list[str](), 0
    for match in WORD.finditer(text):
        words.append(match[0])
        end = match.end()
        if PART.fullmatch(match[0]):
            yield Piece(" ".join(words), end)
            words = []
    if words:
        yield Piece(" ".join(words), end)


def read_words(text: str, decode: Decode, world: World, form: str) -> Reading:
    """The tolerant reading of a text of words; ``lines`` counts its pieces."""
    numbered = enumerate((piece.words for piece in pieces(text)), 1)
    return with_floating(placed(numbered, decode, world, form))


def word_ends(text: str) -> tuple[int, ...]:
    return tuple(piece.end for piece in pieces(text))
