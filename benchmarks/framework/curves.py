"""Curves of a result as an SVG picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.framework.result import Cell
from steelyard.drawing import Axis, Curve, Panel, chart, svg


@dataclass(frozen=True)
class Shown:
    """A panel: the column it shows, and how it is called."""

    column: str
    title: str
    axis: Axis


@dataclass(frozen=True)
class Picture:
    """Panels over the column ``over``, with a curve for each value of the column ``by``."""

    by: str
    over: str
    axis: Axis
    shown: tuple[Shown, ...]
    name: str = "{}"
    """How a curve is called, with its value of ``by``."""
    by_name: bool = False
    """Curves come in the order of their names, not of their rows."""


def draw(rows: Sequence[Mapping[str, Cell]], picture: Picture) -> str:
    """The picture of these rows; what is not a number is left out."""
    values = list(dict.fromkeys(row[picture.by] for row in rows))
    values = sorted(values, key=str) if picture.by_name else values
    panels = [
        Panel(
            shown.title,
            picture.axis,
            shown.axis,
            tuple(_curve([row for row in rows if row[picture.by] == value], picture, shown, value) for value in values),
        )
        for shown in picture.shown
    ]
    return svg(chart(panels, columns=2 if len(panels) == 4 else 3))


def _curve(rows: Sequence[Mapping[str, Cell]], picture: Picture, shown: Shown, value: Cell) -> Curve:
    own = [(float(row[picture.over]), float(row[shown.column])) for row in rows]
    return Curve(picture.name.format(value), tuple(x for x, _ in own), tuple(y for _, y in own))
