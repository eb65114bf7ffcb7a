"""Boxes in a bin: the allowed words depend on the task and on all boxes placed so far, which no grammar can express."""

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
    """Width and height of the remaining boxes."""
    taken: int
    """Occupied cells: bit ``row * width + column`` of the bin."""
    column: int | None = None
    """Column of the next box, once it is chosen."""


@dataclass(frozen=True)
class Boxes(Automaton[Bin]):
    """``task.spec["boxes"]`` lists boxes ``[width, height]``. Each box in turn is either skipped (``skip``) or placed
    by the column and row of its lower-left cell (``c3 r0``). Only free positions are allowed.
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
                f"Boxes: spec['boxes'] of task {task.id!r} is {boxes!r}; "
                "pass a list of [width, height] pairs, each at least [1, 1]"
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
        """Choose a row if a column has been chosen, then skip the remaining boxes."""
        return len(state.boxes)

    def _rows(self, state: Bin, column: int) -> dict[int, int]:
        """Return the rows where the next box fits at this column, with the cells it would occupy."""
        width, height = state.boxes[0]
        side = ((1 << width) - 1) << column
        at_floor = sum(side << (row * self.width) for row in range(height))
        places = {row: at_floor << (row * self.width) for row in range(self.height - height + 1)}
        return {row: cells for row, cells in places.items() if not cells & state.taken}
