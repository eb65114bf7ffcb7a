"""What an action space is: how a policy says bricks, one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.constraints.automaton import Automaton
from steelyard.domains.bricks.actions.places import Bricks, Places
from steelyard.domains.bricks.structure import Structure, World
from steelyard.domains.bricks.text import Reading
from steelyard.errors import ConstraintError
from steelyard.types import Task


class ActionSpace(Protocol):
    """A way to say a structure as text, and the automaton that follows it.

    What the automaton lets through is a structure of 1 to ``most`` bricks without a flaw; with ``may_float`` bricks
    may hang in the air, otherwise each is held when it comes (``in_building_order`` finds such an order).
    """

    @property
    def world(self) -> World: ...

    @property
    def most(self) -> int:
        """The most bricks."""
        ...

    @property
    def may_float(self) -> bool: ...

    @property
    def tokens_per_brick(self) -> int:
        """The most words a brick takes, or characters in a text without a closed vocabulary, which are no fewer than
        its tokens. ``most * tokens_per_brick + 1`` tokens are always enough, the end token among them.
        """
        ...

    def vocabulary(self) -> tuple[str, ...] | None:
        """The words that say bricks, separated by spaces; a domain adds its own. ``None``: any tokenizer will do."""
        ...

    def automaton(self) -> Automaton[Any]:
        """Over the words of the vocabulary, or over characters."""
        ...

    def write(self, structure: Structure) -> str:
        """The text of these bricks in the order given; a ``ConstraintError`` if one cannot be said."""
        ...

    def read(self, text: str) -> Reading:
        """Take every brick that can be placed when its turn comes and pass over the others; raises nothing."""
        ...

    def ends(self, text: str) -> tuple[int, ...]:
        """Where each brick as it was given, counted as in ``Reading.lines``, ends in the text (for step rewards)."""
        ...


class Saying(NamedTuple):
    """Where a text of words is: the bricks that stand, and what was said of the next one."""

    bricks: Bricks
    said: tuple[int, ...] = ()


class WordAutomaton(Automaton[Saying]):
    """What automata over the words of a closed vocabulary share: they begin with nothing said, and may end between two
    bricks.
    """

    def __init__(self, space: ActionSpace) -> None:
        self.space = space
        self.places = Places(space.world, may_float=space.may_float)

    def alphabet(self) -> tuple[str, ...]:
        return self.space.vocabulary() or ()

    def start(self, task: Task) -> Saying:
        return Saying(())

    def may_end(self, state: Saying) -> bool:
        return bool(state.bricks) and not state.said


class Corners(Mapping[str, Saying]):
    """Where words lead that each say a whole place. There may be hundreds, of which one is taken: only that one's state
    is made.
    """

    def __init__(self, bricks: Bricks, pivot: int, corner_of: dict[str, list[int]]) -> None:
        self.bricks, self.pivot, self.corner_of = bricks, pivot, corner_of

    def __getitem__(self, word: str) -> Saying:
        return Saying(self.bricks, (self.pivot, *self.corner_of[word]))

    def __iter__(self) -> Iterator[str]:
        return iter(self.corner_of)

    def __len__(self) -> int:
        return len(self.corner_of)


@dataclass(frozen=True)
class Bounds:
    """What every action space is made for."""

    world: World
    most: int
    may_float: bool = False

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ConstraintError(f"most is {self.most}; a structure has at least 1 brick")


def along(open_: NDArray[np.bool_], axis: int) -> list[int]:
    """The indices along an axis at which anything is open."""
    others = tuple(other for other in range(open_.ndim) if other != axis)
    return np.flatnonzero(open_.any(axis=others)).tolist()
