"""Charts of one or several runs, drawn from ``metrics.jsonl``; the runs need not be finished."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.drawing import Axis, Curve, Panel, Scene, chart, svg
from steelyard.errors import DataError
from steelyard.tracking.artifacts import write_atomically
from steelyard.tracking.base import Metric
from steelyard.tracking.figures import number, percent
from steelyard.tracking.jsonl import METRICS, read_metrics
from steelyard.tracking.shown import ShownSample

CHART = "curves.svg"
"""File name of the chart in a run folder."""
MAX_POINTS = 240
"""Longer curves are averaged down to this many points."""
Rows = Sequence[Mapping[str, Any]]
Steps = Mapping[int, Mapping[str, Any]]
"""Logged values by step and metric."""


@dataclass(frozen=True, slots=True)
class MetricPanel:
    """A panel of the chart."""

    title: str
    metrics: tuple[str, ...]
    """Alternative metrics; the first one that a run has logged is drawn."""
    axis: Axis
    spread: str = ""
    """Metric for half the height of a band around the curve."""


SHARE = {"low": 0.0, "high": 1.0, "percent": True}
PANELS = (
    MetricPanel("Reward", ("reward/mean",), Axis("mean ± std of samples"), spread="reward/std"),
    MetricPanel("Success", ("success",), Axis("share of samples", **SHARE)),
    MetricPanel("Eval success", ("eval/success",), Axis("share, held-out tasks", **SHARE)),
    MetricPanel("Entropy", ("entropy",), Axis("nats per decision", low=0.0)),
    MetricPanel("KL to the reference", ("kl", "kl/k3"), Axis("nats per decision", low=0.0)),
    MetricPanel("Clip share", ("clip/share",), Axis("share of decisions", low=0.0, high=0.01, percent=True)),
    MetricPanel("Length", ("length/mean",), Axis("tokens per sample", low=0.0)),
    MetricPanel("Time per step", ("time/step",), Axis("seconds", low=0.0)),
)


def run_chart(runs: Mapping[str, Rows]) -> Scene:
    """Draw a panel for each metric that at least one run has, with one curve per run."""
    logged = {name: _steps(rows) for name, rows in runs.items()}
    last = max((step for steps in logged.values() for step in steps), default=0)
    axis = Axis("step", low=0.0, high=float(max(last, 1)), integers=True, tight=True)
    panels = [drawn for panel in PANELS if (drawn := _panel(panel, axis, logged)) is not None]
    if not panels:
        metrics = ", ".join(name for panel in PANELS for name in panel.metrics)
        raise DataError(f"{', '.join(runs)}: nothing to plot; none of these metrics was logged: {metrics}")
    name = next(iter(runs)) if len(runs) == 1 else f"{len(runs)} runs"
    long = max(map(len, logged.values())) > MAX_POINTS
    averaged = f"; long curves are averaged to {MAX_POINTS} points" if long else ""
    return chart(panels, title=name, note=f"{last} step{'s' * (last != 1)}{averaged}")


def _panel(panel: MetricPanel, axis: Axis, runs: Mapping[str, Steps]) -> Panel | None:
    curves: list[Curve] = []
    not_finite, last = 0, math.nan
    for name, steps in runs.items():
        found = (list(_points(steps, metric, panel.spread)) for metric in panel.metrics)
        points = next((points for points in found if points), [])
        not_finite += sum(not math.isfinite(y) for _, y, _ in points)
        if points:
            last = points[-1][1]
            x, y, around = zip(*_averaged(points), strict=True)
            curves.append(Curve(name, x, y, around if panel.spread else ()))
    if not curves:
        return None
    note = f"last {(percent if panel.axis.percent else number)(last)}" if len(runs) == 1 else ""
    return Panel(panel.title, axis, panel.axis, tuple(curves), f"{not_finite} not finite" if not_finite else note)


def _points(steps: Steps, metric: str, spread: str) -> Iterator[tuple[float, float, float]]:
    """Yield (step, value, half the band) for every step at which the metric was logged."""
    for step, row in steps.items():
        if (value := _value(row, metric)) is not None:
            yield float(step), value, _value(row, spread) or 0.0


def _steps(rows: Rows) -> Steps:
    """Group rows by step, in ascending order; if a step has several rows, later values replace earlier ones."""
    found: dict[int, dict[str, Any]] = {}
    for row in rows:
        found.setdefault(int(row["step"]), {}).update(row)
    return dict(sorted(found.items()))


def _value(row: Mapping[str, Any], metric: str) -> float | None:
    """Return the value, or None if it is missing, null or not a number (such as a histogram)."""
    value = row.get(metric)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _averaged(points: Sequence[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """Return the points, averaged over neighbours if there are too many; means ignore non-finite values."""
    size = math.ceil(len(points) / MAX_POINTS)
    if size == 1:
        return list(points)
    parts = [points[start : start + size] for start in range(0, len(points), size)]
    return [(_mean(part, 0), _mean(part, 1), _mean(part, 2)) for part in parts]


def _mean(points: Sequence[tuple[float, float, float]], column: int) -> float:
    values = [point[column] for point in points if math.isfinite(point[column])]
    return sum(values) / len(values) if values else math.nan


class ChartTracker:
    """Draws the chart into the run folder when the run ends, even after an error.

    No chart is written if the run folder was replaced by another one in the meantime.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._logged_to: os.stat_result | None = None

    def log(self, step: int, metrics: Mapping[str, Metric]) -> None:
        """Remember the run folder; the chart is drawn later, from the metrics file."""
        if self._logged_to is None:
            self._logged_to = self.folder.stat()

    def samples(self, step: int, shown: Sequence[ShownSample]) -> None: ...

    def rewind(self, step: int) -> None: ...

    def close(self) -> None:
        metrics = self.folder / METRICS
        replaced = (
            self._logged_to is None
            or not metrics.is_file()
            or not os.path.samestat(self._logged_to, self.folder.stat())
        )
        rows = [] if replaced else read_metrics(metrics)
        if rows:
            write_atomically(self.folder / CHART, svg(run_chart({self.folder.resolve().name: rows})).encode())
