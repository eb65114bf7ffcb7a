"""Boxes in a bin: what may come depends on the task and on all that stands already, which no grammar can say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import index
from typing import Any, NamedTuple

from steelyard.constraints.automaton import Automaton
from steelyard.errors import ConstraintError
from steelyard.types import Task

SKIP = "skip"


class Bin(NamedTuple):
    boxes: tuple[tuple[int, int], ...]
    """Width and height of the boxes that are still to be dealt with."""
    taken: int
    """The cells in use: bit ``row * width + column`` of the bin."""
    column: int | None = None
    """Where the next box goes, once that was said."""


@dataclass(frozen=True)
class Boxes(Automaton[Bin]):
    """``task.spec["boxes"]`` lists boxes ``[width, height]``, dealt with in order: ``skip``, or the column and the
    row of the lower left cell (``c3 r0``). Exactly the free places may be said.
    """

    width: int
    height: int

    stretch = 0

    def alphabet(self) -> tuple[str, ...]:
        columns = (f"c{column}" for column in range(self.width))
        return SKIP, *columns, *(f"r{row}" for row in range(self.height))

    def start(self, task: Task) -> Bin:
        boxes: Any = task.spec.get("boxes")
        try:
            sizes = tuple((index(width), index(height)) for width, height in boxes)
            if min((side for size in sizes for side in size), default=1) < 1:
                raise ValueError("a side below 1")
        except (TypeError, ValueError) as error:
            raise ConstraintError(
                f"Boxes: spec['boxes'] of task {task.id!r} is {boxes!r}; give a list of [width, height], from [1, 1] up"
            ) from error
        return Bin(sizes, 0)

    def moves(self, state: Bin) -> Mapping[str, Bin]:
        if not state.boxes:
            return {}
        if state.column is not None:
            rows = self._rows(state, state.column)
            return {f"r{row}": Bin(state.boxes[1:], state.taken | cells) for row, cells in rows.items()}
        width = state.boxes[0][0]
        columns = [column for column in range(self.width - width + 1) if self._rows(state, column)]
        chosen = {f"c{column}": Bin(state.boxes, state.taken, column) for column in columns}
        return {SKIP: Bin(state.boxes[1:], state.taken), **chosen}

    def may_end(self, state: Bin) -> bool:
        return not state.boxes

    def shortest_end(self, state: Bin) -> int:
        """Say the row where it is due, and skip the rest."""
        return len(state.boxes)

    def _rows(self, state: Bin, column: int) -> dict[int, int]:
        """The rows in which the next box is free at this column, with the cells it would take."""
        width, height = state.boxes[0]
        side = ((1 << width) - 1) << column
        at_floor = sum(side << (row * self.width) for row in range(height))
        places = {row: at_floor << (row * self.width) for row in range(self.height - height + 1)}
        return {row: cells for row, cells in places.items() if not cells & state.taken}
