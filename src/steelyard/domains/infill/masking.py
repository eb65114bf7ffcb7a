"""Where the holes of a text are: at random, in spans, or sticky. Each is a function of a random generator."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import ConfigError
from steelyard.types import HOLE

Places = NDArray[np.int64]
Pattern = Literal["random", "span", "sticky"]


def at_random(length: int, ratio: float, _run: float, most: int, rng: np.random.Generator) -> Places:
    """A share ``ratio`` of all places, any as likely as any other."""
    return rng.permutation(length)[: min(round(ratio * length), most)]


def in_spans(length: int, ratio: float, run: float, most: int, rng: np.random.Generator) -> Places:
    """Spans of geometric length, ``run`` on average, until a share ``ratio`` is reached; spans may touch."""
    wanted, hidden = min(round(ratio * length), most), np.zeros(length, np.bool_)
    while (missing := wanted - int(hidden.sum())) > 0:
        start = int(rng.integers(length))
        size = min(int(rng.geometric(1.0 / run)), missing)
        hidden[start : start + size] = True
    return np.flatnonzero(hidden)


def sticky(length: int, ratio: float, run: float, most: int, rng: np.random.Generator) -> Places:
    """A chain of two states: a hole goes on with probability 1 - 1/run, and begins so often that a share ``ratio`` of
    places are holes on average. Of more than ``most`` whole runs are given up, any as likely as any other.
    """
    begins, ends = ratio / (run * (1.0 - ratio)), 1.0 / run
    hidden, inside = np.zeros(length, np.bool_), rng.random() < ratio
    for place, draw in enumerate(rng.random(length)):
        hidden[place] = inside
        inside = draw >= ends if inside else draw < begins
    found = np.flatnonzero(hidden)
    runs = np.split(found, np.flatnonzero(np.diff(found) > 1) + 1)
    while len(runs) > 1 and sum(map(len, runs)) > most:
        runs.pop(int(rng.integers(len(runs))))
    return np.concatenate(runs)[:most]


PATTERNS: dict[Pattern, Callable[[int, float, float, int, np.random.Generator], Places]] = {
    "random": at_random,
    "span": in_spans,
    "sticky": sticky,
}
"""Each with the length of the text, the share of holes, the average run and the most holes."""


@dataclass(frozen=True)
class Masking:
    """How a text gets its holes: at least one, at most ``most``; the ratio is drawn between two bounds."""

    pattern: Pattern = "span"
    ratio: tuple[float, float] = (0.2, 0.2)
    run: float = 3.0
    """Average length of a span, or of a sticky run."""
    most: int = 64

    def __post_init__(self) -> None:
        low, high = self.ratio
        if self.pattern not in PATTERNS:
            raise ConfigError(f"infill: masking={self.pattern!r}; there are: {', '.join(PATTERNS)}")
        if not 0 < low <= high < 1:
            raise ConfigError(f"infill: ratio={list(self.ratio)}; it is a share, or two between which it is drawn")
        if self.run < 1 or self.most < 1 or (self.pattern == "sticky" and high > self.run / (1.0 + self.run)):
            raise ConfigError(
                f"infill: run={self.run}, most={self.most}, ratio={list(self.ratio)} cannot be had together"
            )

    def places(self, length: int, rng: np.random.Generator) -> Places:
        """Where the holes of a text of that length are, in rising order."""
        ratio = float(rng.uniform(*self.ratio))
        found = PATTERNS[self.pattern](length, ratio, self.run, self.most, rng)
        if not len(found):
            found = rng.integers(length, size=1)
        return np.sort(found)


def with_holes(pieces: Sequence[str], places: Places) -> str:
    """The text that the pieces make, such as its characters, with a hole at each of the places."""
    hidden = set(places.tolist())
    return "".join(HOLE if place in hidden else piece for place, piece in enumerate(pieces))


def fills(masked: str, text: str) -> list[str] | None:
    """What stands in each run of holes, the first ones as short as can be; None if the text does not fit them."""
    first, *parts = re.split(f"{HOLE}+", masked)
    if not parts or not text.startswith(first):
        return [] if text == masked else None
    place, found = len(first), list[str]()
    for part in parts[:-1]:
        if (end := text.find(part, place)) < 0:
            return None
        found.append(text[place:end])
        place = end + len(part)
    end = len(text) - len(parts[-1])
    return [*found, text[place:end]] if place <= end and text.endswith(parts[-1]) else None
