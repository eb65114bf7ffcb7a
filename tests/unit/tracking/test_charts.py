"""The chart of a run is drawn from ``metrics.jsonl`` in any state, and a drawing failure never stops the run."""

from __future__ import annotations

import logging
import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from steelyard.drawing import Scene, svg
from steelyard.drawing.chart import COLOURS
from steelyard.drawing.scene import Label, Line, Polygon
from steelyard.errors import DataError
from steelyard.tracking import ChartTracker, JsonlTracker, Trackers, run_chart
from steelyard.tracking.charts import CHART, MAX_POINTS, PANELS

Rows = list[dict[str, Any]]


def row(step: int, **changes: Any) -> dict[str, Any]:
    usual = {
        "reward/mean": 0.01 * step,
        "reward/std": 0.1,
        "success": 0.5,
        "eval/success": 0.25,
        "entropy": 1.0,
        "kl": 0.01,
        "clip/share": 0.0,
        "length/mean": 12.0,
        "time/step": 0.5,
    }
    return {"step": step, **usual, **{name.replace("__", "/"): value for name, value in changes.items()}}


def labels(scene: Scene) -> list[str]:
    return [shape.text for shape in scene.shapes if isinstance(shape, Label)]


def curves(scene: Scene, colour: int = 0) -> list[int]:
    """Return the number of points on each line of the given colour."""
    return [len(shape.points) for shape in scene.shapes if isinstance(shape, Line) and shape.edge == COLOURS[colour]]


def test_every_metric_has_a_panel() -> None:
    scene = run_chart({"mine": [row(step) for step in range(1, 6)]})
    assert {panel.title for panel in PANELS} <= set(labels(scene))
    assert curves(scene) == [5] * len(PANELS)
    assert {"mine", "5 steps", "last 50.0%", "last 0.050"} <= set(labels(scene))
    assert sum(isinstance(shape, Polygon) for shape in scene.shapes) == 1, "the spread of the reward"


def test_metrics_that_no_run_logged_have_no_panel() -> None:
    rows = [{"step": step, "success": 0.5, "reward/histogram": {"counts": [1], "edges": [0, 1]}} for step in (1, 2)]
    texts = labels(run_chart({"mine": rows}))
    assert "Success" in texts
    assert not {"Reward", "KL to the reference", "Eval success"} & set(texts)


def test_without_a_kl_in_the_loss_the_k3_estimate_is_drawn() -> None:
    assert "KL to the reference" in labels(run_chart({"mine": [{"step": 1, "kl/k3": 0.5}]}))


def test_several_runs_are_compared_by_name() -> None:
    longer, shorter = [row(step) for step in range(1, 9)], [row(step) for step in range(1, 4)]
    scene = run_chart({"first": longer, "second": shorter})
    assert {"first", "second", "2 runs", "8 steps"} <= set(labels(scene))
    assert curves(scene, 0) == [2, *[8] * len(PANELS)], "the legend, and the panels"
    assert curves(scene, 1) == [2, *[3] * len(PANELS)]
    assert not any(label.startswith("last ") for label in labels(scene))


def test_occasional_evaluations_form_a_curve() -> None:
    rows: Rows = [{"step": step, "success": 0.5} for step in range(21)]
    rows += [{"step": step, "eval/success": 0.1} for step in range(0, 21, 5)]
    assert sorted(curves(run_chart({"mine": rows}))) == [5, 21]


def test_values_that_are_not_finite_are_counted_and_null_is_ignored() -> None:
    rows = [row(1), row(2, entropy=math.nan, kl=None), row(3, entropy=math.inf), row(4), row(5)]
    scene = run_chart({"mine": rows})
    assert "2 not finite" in labels(scene)
    assert sorted(curves(scene)) == [2, 4, 5, 5, 5, 5, 5, 5], "a gap in the entropy, a point fewer in the KL"
    ET.fromstring(svg(scene))
    nothing_finite = run_chart({"mine": [row(step, entropy=math.nan) for step in (1, 2)]})
    assert {"no finite values", "2 not finite"} <= set(labels(nothing_finite))


def test_a_chart_needs_at_least_one_logged_metric() -> None:
    assert {"1 step", "Reward"} <= set(labels(run_chart({"mine": [row(1)]})))
    with pytest.raises(DataError, match=r"mine: nothing to plot; .*reward/mean"):
        run_chart({"mine": [{"step": 1, "other": 2.0}]})


def test_rows_of_one_step_are_merged_and_the_last_value_counts() -> None:
    """A file assembled from a resumed run may contain several rows for one step."""
    rows = [row(1), row(2, success=0.25), {"step": 3, "eval/success": 1.0}, row(2, success=0.75), row(3)]
    assert "last 50.0%" in labels(run_chart({"mine": rows}))
    assert max(curves(run_chart({"mine": rows}))) == 3


def test_a_long_run_is_averaged() -> None:
    each: Rows = [{"success": float(place % 2), "entropy": math.nan if place % 3 else 1.0} for place in range(10)]
    rows = [{"step": step, **each[step % 10]} for step in range(10 * MAX_POINTS)]
    scene = run_chart({"mine": rows})
    assert curves(scene) == [MAX_POINTS, MAX_POINTS]
    assert any(f"averaged to {MAX_POINTS} points" in label for label in labels(scene))
    drawn = [shape for shape in scene.shapes if isinstance(shape, Line) and shape.edge == COLOURS[0]]
    assert [len({y for _, y in line.points}) for line in drawn] == [1, 1], "every ten steps have the same mean"


def test_the_chart_is_written_when_the_run_ends(tmp_path: Path) -> None:
    trackers = Trackers([JsonlTracker(tmp_path / "metrics.jsonl"), ChartTracker(tmp_path)])
    trackers.log(1, {"reward/mean": 0.5, "reward/std": math.nan})
    assert not (tmp_path / CHART).exists()
    trackers.close()
    texts = [element.text for element in ET.parse(tmp_path / CHART).getroot() if element.tag.endswith("text")]
    assert tmp_path.name in texts
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_run_without_steps_or_folder_writes_no_chart(tmp_path: Path) -> None:
    ChartTracker(tmp_path).close()
    ChartTracker(tmp_path / "deleted").close()
    assert list(tmp_path.iterdir()) == []


def test_a_chart_that_cannot_be_drawn_does_not_stop_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "metrics.jsonl").write_text("nonsense\n" * 3, encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        trackers = Trackers([ChartTracker(tmp_path)])
        trackers.log(1, {})
        trackers.close()
    assert "ChartTracker cannot write" in caplog.text
