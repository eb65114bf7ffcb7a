"""The action space interface and the shared parts of its automata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.constraints.automaton import Automaton
from steelyard.domains.bricks.actions.placements import PlacedBricks, Placements
from steelyard.domains.bricks.structure import Structure, World
from steelyard.domains.bricks.text import Reading
from steelyard.errors import ConstraintError
from steelyard.types import Task


class ActionSpace(Protocol):
    """A way to write a structure as text, with an automaton that constrains it.

    The automaton accepts valid structures of 1 to ``max_bricks`` bricks. Unless ``may_float``, each brick must be
    supported when it is placed; ``in_building_order`` sorts bricks accordingly.
    """

    @property
    def world(self) -> World: ...

    @property
    def max_bricks(self) -> int:
        """Maximum number of bricks."""
        ...

    @property
    def may_float(self) -> bool: ...

    @property
    def tokens_per_brick(self) -> int:
        """Maximum number of words per brick, or of characters if the vocabulary is open.

        ``max_bricks * tokens_per_brick + 1`` tokens always suffice, including the end token.
        """
        ...

    def vocabulary(self) -> tuple[str, ...] | None:
        """Return the words for bricks, which are separated by spaces in the text. ``None`` allows any tokenizer."""
        ...

    def automaton(self) -> Automaton[Any]:
        """Return the automaton over the words of the vocabulary, or over characters."""
        ...

    def write(self, structure: Structure) -> str:
        """Write the bricks in the given order; raise ``ConstraintError`` if one cannot be expressed."""
        ...

    def read(self, text: str) -> Reading:
        """Place bricks in order and skip those that cannot be placed. Never raises."""
        ...

    def ends(self, text: str) -> tuple[int, ...]:
        """Return the text offset at which each brick ends, numbered as in ``Reading.lines``, for step rewards."""
        ...


class WordState(NamedTuple):
    """State of a word automaton: the placed bricks and the coordinates written so far for the next brick."""

    bricks: PlacedBricks
    prefix: tuple[int, ...] = ()


class WordAutomaton(Automaton[WordState]):
    """Base class for automata over a closed vocabulary, which start with empty text and may end after any brick."""

    def __init__(self, space: ActionSpace) -> None:
        self.space = space
        self.placements = Placements(space.world, may_float=space.may_float)

    def alphabet(self) -> tuple[str, ...]:
        return self.space.vocabulary() or ()

    def start(self, task: Task) -> WordState:
        return WordState(())

    def may_end(self, state: WordState) -> bool:
        return bool(state.bricks) and not state.prefix


class PositionMoves(Mapping[str, WordState]):
    """Transitions for words that each name a complete position. A transition's state is built only when the transition
    is taken, because there may be hundreds.
    """

    def __init__(self, bricks: PlacedBricks, pivot: int, corners: dict[str, list[int]]) -> None:
        self.bricks, self.pivot, self.corners = bricks, pivot, corners

    def __getitem__(self, word: str) -> WordState:
        return WordState(self.bricks, (self.pivot, *self.corners[word]))

    def __iter__(self) -> Iterator[str]:
        return iter(self.corners)

    def __len__(self) -> int:
        return len(self.corners)


@dataclass(frozen=True)
class BaseActionSpace:
    """Parameters shared by all action spaces."""

    world: World
    max_bricks: int
    may_float: bool = False

    def __post_init__(self) -> None:
        if self.max_bricks < 1:
            raise ConstraintError(f"max_bricks = {self.max_bricks} must be at least 1")


def open_indices(open_: NDArray[np.bool_], axis: int) -> list[int]:
    """Return the indices along an axis with at least one open entry."""
    others = tuple(other for other in range(open_.ndim) if other != axis)
    return np.flatnonzero(open_.any(axis=others)).tolist()
