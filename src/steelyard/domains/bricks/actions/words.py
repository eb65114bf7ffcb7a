"""Text made of words that describe bricks; the last word of each brick names its part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from steelyard.domains.bricks.parts import Library
from steelyard.domains.bricks.structure import World
from steelyard.domains.bricks.text import Decode, Reading, place_segments, with_floating

PART = re.compile(r"\d+x\d+", re.ASCII)
WORD = re.compile(r"\S+")
NUMBER = r"(\d{1,9})"
SIGNED = r"([+-]\d{1,9})"


class BrickWords(NamedTuple):
    """The words of one brick, and the offset in the text at which they end."""

    words: str
    end: int


def part_words(library: Library) -> tuple[str, ...]:
    return tuple(f"{h}x{w}" for h, w in library.dimensions)


def split_bricks(text: str) -> Iterator[BrickWords]:
    """Split the text after each word that names a part; any remainder becomes the last segment."""
    words, end = list[str](), 0
    for match in WORD.finditer(text):
        words.append(match[0])
        end = match.end()
        if PART.fullmatch(match[0]):
            yield BrickWords(" ".join(words), end)
            words = []
    if words:
        yield BrickWords(" ".join(words), end)


def read_words(text: str, decode: Decode, world: World, form: str) -> Reading:
    """Read text made of words leniently; ``lines`` counts its bricks."""
    numbered = enumerate((brick.words for brick in split_bricks(text)), 1)
    return with_floating(place_segments(numbered, decode, world, form))


def word_ends(text: str) -> tuple[int, ...]:
    return tuple(brick.end for brick in split_bricks(text))
