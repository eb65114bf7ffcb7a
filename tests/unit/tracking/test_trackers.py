"""Histograms of any numbers, and trackers that fail without stopping the run."""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard.tracking import Activity, ConsoleTracker, Histogram, JsonlTracker, Trackers, read_metrics
from steelyard.tracking.cards import SampleCards
from steelyard.tracking.console import Screen
from steelyard.tracking.figures import sparkline, trend
from steelyard.tracking.shown import ShownSample
from steelyard.types import Verdict


@pytest.mark.parametrize(
    "values",
    [
        [1e17, 1e17],
        [2.0**62, 2.0**62 + 1024],
        [-1e308, 1e308],
        [1.79e308, 1.79e308],
        [0.0, 5e-324],
        [-1.7e308, 0.0, 1.7e308, float("nan"), float("inf")],
    ],
)
def test_a_histogram_of_extreme_or_equal_values(values: list[float]) -> None:
    histogram = Histogram.of(values)
    assert sum(histogram.counts) == sum(abs(value) < float("inf") for value in values)
    assert list(histogram.edges) == sorted(set(histogram.edges))
    assert len(histogram.edges) == len(histogram.counts) + 1


def test_a_histogram_has_equal_bins_over_the_range() -> None:
    assert Histogram.of([0.0, 1.0, 1.0, 4.0], bins=4) == Histogram((0.0, 1.0, 2.0, 3.0, 4.0), (1, 2, 0, 1))
    assert Histogram.of([3.0], bins=2) == Histogram((2.5, 3.0, 3.5), (0, 1))
    assert Histogram.of([]) == Histogram((0.0, 1.0), (0,))


def test_sparklines_and_trends_of_the_largest_numbers() -> None:
    values = [-1e308, 1e308, -1.7e308, 1.7e308, float("inf")]
    assert len(sparkline(values, 10)) == 5
    assert trend(values) in ("↗", "↘", "→")


class Failing:
    """A tracker that fails while ``broken``."""

    def __init__(self) -> None:
        self.broken, self.steps = True, list[int]()

    def log(self, step: int, metrics: object) -> None:
        if self.broken:
            raise OSError(28, "No space left on device\x1b[2J")
        self.steps.append(step)

    def samples(self, step: int, shown: object) -> None: ...

    def rewind(self, step: int) -> None: ...

    def close(self) -> None:
        raise RuntimeError("cannot close")


def test_a_failing_tracker_is_reported_once_and_called_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    failing, metrics = Failing(), tmp_path / "metrics.jsonl"
    trackers = Trackers([failing, JsonlTracker(metrics)])
    with caplog.at_level(logging.WARNING):
        for step in (1, 2, 3):
            failing.broken = step < 3
            trackers.log(step, {"a": 1.0})
            trackers.samples(step, [])
        assert len(caplog.messages) == 1
        trackers.close()
    assert failing.steps == [3]
    assert [row["step"] for row in read_metrics(metrics)] == [1, 2, 3]
    assert "Failing cannot write the metrics" in caplog.messages[0]
    assert "\x1b" not in caplog.messages[0]
    assert "cannot close" in caplog.messages[1]


def test_failing_progress_is_reported_once_and_trackers_without_progress_are_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Failing):
        def progress(self, activity: Activity) -> None:
            raise ValueError("I/O operation on closed file")

    class Shown(Failing):
        def __init__(self) -> None:
            super().__init__()
            self.shown = list[Activity]()

        def progress(self, activity: Activity) -> None:
            self.shown.append(activity)

    shown = Shown()
    trackers = Trackers([JsonlTracker(tmp_path / "metrics.jsonl"), Broken(), shown])
    activities = [Activity("sample", done, 3) for done in range(3)]
    with caplog.at_level(logging.WARNING):
        for activity in activities:
            trackers.progress(activity)
    assert shown.shown == activities
    assert len(caplog.messages) == 1
    assert "Broken cannot write the progress" in caplog.messages[0]


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Make writes beyond ``size`` bytes fail after a partial write, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_no_partial_line(tmp_path: Path) -> None:
    tracker = JsonlTracker(tmp_path / "metrics.jsonl")
    tracker.log(1, {"a": 1.0})
    with files_up_to(tracker.path.stat().st_size + 10), pytest.raises(OSError, match=r"space|large"):
        tracker.log(2, {"a": 1.0})
    tracker.log(3, {"a": 1.0})
    assert [row["step"] for row in read_metrics(tracker.path)] == [1, 3]


def test_a_closed_pipe_is_an_error_and_does_not_exit_the_process() -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as file:  # noqa: PTH123 - a descriptor
        trackers = Trackers([ConsoleTracker(2, console=Screen(file=file))])
        trackers.log(1, {"reward/mean": 1.0})
        trackers.log(2, {"reward/mean": 1.0})
        trackers.close()
        with open(os.devnull, "w") as null:  # noqa: PTH123
            os.dup2(null.fileno(), write)


def test_control_characters_in_names_and_reasons_are_made_visible_on_cards() -> None:
    verdict = Verdict.scored(1.0, parts={"part\x1b[2J\ud800": 1.0})
    unscored = Verdict.unscored("cause\x1b[2J", "reason\x1b[2J\nline\ud800")
    shown = [ShownSample("best", "task\x1b[2J\ud800", "p", "t", one) for one in (verdict, unscored)]
    console = Screen(width=100, force_terminal=False)
    with console.capture() as capture:
        console.print(SampleCards(1, shown))
    assert "\x1b" not in capture.get()
    assert capture.get().encode()
