"""Masking patterns, which determine where the holes are: random, span or sticky."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import ConfigError
from steelyard.types import HOLE

Positions = NDArray[np.int64]
Pattern = Literal["random", "span", "sticky"]


def random_holes(length: int, ratio: float, _run: float, most: int, rng: np.random.Generator) -> Positions:
    """Mask a fraction ``ratio`` of all positions, chosen uniformly at random."""
    return rng.permutation(length)[: min(round(ratio * length), most)]


def span_holes(length: int, ratio: float, run: float, most: int, rng: np.random.Generator) -> Positions:
    """Mask spans with geometrically distributed lengths (mean ``run``) until a fraction ``ratio`` is masked; spans may
    touch.
    """
    wanted, hidden = min(round(ratio * length), most), np.zeros(length, np.bool_)
    while (missing := wanted - int(hidden.sum())) > 0:
        start = int(rng.integers(length))
        size = min(int(rng.geometric(1.0 / run)), missing)
        hidden[start : start + size] = True
    return np.flatnonzero(hidden)


def sticky_holes(length: int, ratio: float, run: float, most: int, rng: np.random.Generator) -> Positions:
    """Mask positions with a two-state Markov chain. A run of holes continues with probability 1 - 1/run and starts at
    the rate that masks a fraction ``ratio`` on average. If there are more than ``most`` holes, random runs are removed.
    """
    start, stop = ratio / (run * (1.0 - ratio)), 1.0 / run
    hidden, inside = np.zeros(length, np.bool_), rng.random() < ratio
    for position, draw in enumerate(rng.random(length)):
        hidden[position] = inside
        inside = draw >= stop if inside else draw < start
    found = np.flatnonzero(hidden)
    runs = np.split(found, np.flatnonzero(np.diff(found) > 1) + 1)
    while len(runs) > 1 and sum(map(len, runs)) > most:
        runs.pop(int(rng.integers(len(runs))))
    return np.concatenate(runs)[:most]


PATTERNS: dict[Pattern, Callable[[int, float, float, int, np.random.Generator], Positions]] = {
    "random": random_holes,
    "span": span_holes,
    "sticky": sticky_holes,
}
"""Functions that take the text length, fraction of holes, mean run length, maximum number of holes and an RNG."""


@dataclass(frozen=True)
class Masking:
    """Masking settings: each text has between 1 and ``max_holes`` holes, with a ratio sampled from a range."""

    pattern: Pattern = "span"
    ratio: tuple[float, float] = (0.2, 0.2)
    mean_span: float = 3.0
    """Mean length of a span or sticky run."""
    max_holes: int = 64

    def __post_init__(self) -> None:
        low, high = self.ratio
        if self.pattern not in PATTERNS:
            raise ConfigError(f"infill: masking={self.pattern!r} is invalid; choose one of {', '.join(PATTERNS)}")
        if not 0 < low <= high < 1:
            raise ConfigError(
                f"infill: ratio={list(self.ratio)} must be one fraction between 0 and 1, or two in ascending order"
            )
        if (
            self.mean_span < 1
            or self.max_holes < 1
            or (self.pattern == "sticky" and high > self.mean_span / (1.0 + self.mean_span))
        ):
            raise ConfigError(
                f"infill: mean_span={self.mean_span} and max_holes={self.max_holes} must be at least 1, and with "
                "masking='sticky' "
                f"ratio={list(self.ratio)} must not exceed mean_span / (1 + mean_span); raise mean_span or lower ratio"
            )

    def positions(self, length: int, rng: np.random.Generator) -> Positions:
        """Sample the hole positions for text of the given length, in ascending order."""
        ratio = float(rng.uniform(*self.ratio))
        found = PATTERNS[self.pattern](length, ratio, self.mean_span, self.max_holes, rng)
        if not len(found):
            found = rng.integers(length, size=1)
        return np.sort(found)


def with_holes(units: Sequence[str], positions: Positions) -> str:
    """Join text units (characters or tokens), with a hole at each of ``positions``."""
    hidden = set(positions.tolist())
    return "".join(HOLE if position in hidden else unit for position, unit in enumerate(units))


def fills(masked: str, text: str) -> list[str] | None:
    """Return the text in each run of holes, or ``None`` if the text does not match. If there are several ways to match,
    earlier runs are as short as possible.
    """
    first, *parts = re.split(f"{HOLE}+", masked)
    if not parts or not text.startswith(first):
        return [] if text == masked else None
    position, found = len(first), list[str]()
    for part in parts[:-1]:
        if (end := text.find(part, position)) < 0:
            return None
        found.append(text[position:end])
        position = end + len(part)
    end = len(text) - len(parts[-1])
    return [*found, text[position:end]] if position <= end and text.endswith(parts[-1]) else None
