"""TensorBoard event files survive a kill and are rewound on resume."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import MissingExtraError
from steelyard.tracking import Histogram, ShownSample
from steelyard.tracking.tensorboard import TensorBoardTracker
from steelyard.types import Verdict

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def read(folder: Path) -> Any:
    events = event_accumulator.EventAccumulator(
        str(folder), size_guidance={"scalars": 0, "histograms": 0, "tensors": 0}
    )
    return events.Reload()


def scalars(folder: Path) -> list[tuple[int, float]]:
    return [(event.step, round(event.value, 4)) for event in read(folder).Scalars("reward/mean")]


def test_logged_metrics_and_samples_can_be_read_back(tmp_path: Path) -> None:
    tracker = TensorBoardTracker(tmp_path)
    tracker.log(1, {"reward/mean": 0.5, "parts/a/histogram": Histogram((0.0, 1.0, 3.0), (2, 1))})
    assert scalars(tmp_path) == [(1, 0.5)], "readable before close, so that a kill loses nothing"
    tracker.samples(1, [ShownSample("best", "t", "p", "a sample", Verdict.scored(1.0))])
    events = read(tmp_path)
    (histogram,) = events.Histograms("parts/a/histogram")
    value = histogram.histogram_value
    assert (value.min, value.max, value.num, value.sum) == (0.0, 3.0, 3.0, 2 * 0.5 + 2.0)
    assert (list(value.bucket_limit), list(value.bucket)) == ([1.0, 3.0], [2.0, 1.0])
    assert b"a sample" in events.Tensors("samples/text_summary")[0].tensor_proto.string_val[0]
    tracker.close()


def test_rewind_purges_later_steps(tmp_path: Path) -> None:
    before = TensorBoardTracker(tmp_path)
    for step in range(6):
        before.log(step, {"reward/mean": step / 10})
    before.close()
    after = TensorBoardTracker(tmp_path)
    after.rewind(3)
    after.log(4, {"reward/mean": 9.0})
    after.close()
    assert scalars(tmp_path) == [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.3), (4, 9.0)]


def test_a_truncated_event_file_does_not_hide_later_events(tmp_path: Path) -> None:
    before = TensorBoardTracker(tmp_path)
    for step in range(4):
        before.log(step, {"reward/mean": step / 10})
    before.close()
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-5])
    after = TensorBoardTracker(tmp_path)
    after.rewind(1)
    after.log(2, {"reward/mean": 9.0})
    after.close()
    assert scalars(tmp_path) == [(0, 0.0), (1, 0.1), (2, 9.0)]


def test_rewind_without_events_creates_no_folder(tmp_path: Path) -> None:
    TensorBoardTracker(tmp_path / "tb").rewind(-1)
    assert not (tmp_path / "tb").exists()


def test_the_error_names_the_missing_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"steelyard\[tensorboard\]"):
        TensorBoardTracker(tmp_path)
