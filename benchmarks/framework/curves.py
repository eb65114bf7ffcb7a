"""Draw the details of a result as curves in an SVG file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.framework.result import Cell
from steelyard.drawing import Axis, Curve, Panel, chart, svg


@dataclass(frozen=True)
class PanelSpec:
    """One panel: the column it shows, its title and its vertical axis."""

    column: str
    title: str
    axis: Axis


@dataclass(frozen=True)
class ChartSpec:
    """Panels over the column ``over``, with one curve for each value of the column ``by``."""

    by: str
    over: str
    axis: Axis
    panels: tuple[PanelSpec, ...]
    label: str = "{}"
    """Format string for a curve's label, filled with its ``by`` value."""
    sort_labels: bool = False
    """Sort the curves by label instead of keeping the order of the rows."""


def draw(rows: Sequence[Mapping[str, Cell]], spec: ChartSpec) -> str:
    """Draw the rows as SVG, skipping non-numeric values."""
    values = list(dict.fromkeys(row[spec.by] for row in rows))
    values = sorted(values, key=str) if spec.sort_labels else values
    panels = [
        Panel(
            panel.title,
            spec.axis,
            panel.axis,
            tuple(_curve([row for row in rows if row[spec.by] == value], spec, panel, value) for value in values),
        )
        for panel in spec.panels
    ]
    return svg(chart(panels, columns=2 if len(panels) == 4 else 3))


def _curve(rows: Sequence[Mapping[str, Cell]], spec: ChartSpec, panel: PanelSpec, value: Cell) -> Curve:
    points = [(float(row[spec.over]), float(row[panel.column])) for row in rows]
    return Curve(spec.label.format(value), tuple(x for x, _ in points), tuple(y for _, y in points))
