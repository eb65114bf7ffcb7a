"""Action spaces: how a policy writes a structure. The domain, its reward and its builder know only this protocol."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Protocol

from steelyard.constraints.automaton import Automaton
from steelyard.domains.bricks.structure import Structure, World
from steelyard.domains.bricks.text import Reading, read, write


class Action(Protocol):
    """A way to write structures. Frozen plain data: its ``repr`` says all that matters of it, and it can be pickled."""

    @property
    def name(self) -> str: ...

    def vocabulary(self) -> tuple[str, ...] | None:
        """The words it writes with, without special tokens; ``None``: any text."""
        ...

    def automaton(self) -> Automaton[Any] | None:
        """What its texts look like; ``None``: nothing is forbidden."""
        ...

    def write(self, structure: Structure) -> str:
        """The text of a structure, its bricks in their order."""
        ...

    def read(self, text: str) -> Reading:
        """The bricks that a text places, and what is wrong with the rest of it. It raises nothing."""
        ...

    def ends(self, text: str, reading: Reading) -> tuple[int, ...]:
        """Where in the text each brick of the reading's structure ends: offsets that rise."""
        ...


@dataclass(frozen=True)
class TextFormat:
    """One brick a line, ``hxw (x,y,z)``, for language models."""

    world: World

    @property
    def name(self) -> str:
        return "text"

    def vocabulary(self) -> None:
        """Any text."""

    def automaton(self) -> None:
        """Nothing is forbidden: what cannot be placed is passed over and counted."""

    def write(self, structure: Structure) -> str:
        return write(structure)

    def read(self, text: str) -> Reading:
        return read(text, self.world)

    def ends(self, text: str, reading: Reading) -> tuple[int, ...]:
        after_line = list(itertools.accumulate(len(line) + 1 for line in text.split("\n")))
        return tuple(after_line[line - 1] - 1 for line in reading.lines)
