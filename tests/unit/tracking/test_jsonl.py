"""``metrics.jsonl`` is exact, stays valid after a kill, and is truncated on resume."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from steelyard.errors import DataError
from steelyard.tracking import Histogram, JsonlTracker, Trackers, read_metrics


def logged(path: Path, *steps: int) -> JsonlTracker:
    tracker = JsonlTracker(path)
    for step in steps:
        tracker.log(step, {"reward/mean": step / 7, "kl": 0.1})
    return tracker


def steps_in(path: Path) -> list[int]:
    return [row["step"] for row in read_metrics(path)]


def test_each_step_is_written_immediately_with_sorted_names(tmp_path: Path) -> None:
    path = tmp_path / "run" / "metrics.jsonl"
    logged(path, 1, 2)  # not closed, but each line must already be in the file
    lines = path.read_text().splitlines()
    assert lines[0] == '{"step": 1, "kl": 0.1, "reward/mean": 0.14285714285714285}'
    assert len(lines) == 2


def test_numbers_read_back_exactly(tmp_path: Path) -> None:
    values = {"a": 0.1 + 0.2, "b": 5e-324, "c": -0.0, "d": 3, "e": math.inf, "f": -math.inf, "g": 1e22}
    tracker = JsonlTracker(tmp_path / "m.jsonl")
    tracker.log(0, {**values, "h": math.nan})
    tracker.close()

    def no_constants(name: str) -> float:
        raise AssertionError(f"{name} is not valid JSON")

    json.loads((tmp_path / "m.jsonl").read_text(), parse_constant=no_constants)
    (row,) = read_metrics(tmp_path / "m.jsonl")
    assert {name: repr(row[name]) for name in values} == {name: repr(value) for name, value in values.items()}
    assert math.isnan(row["h"])


def test_rewind_removes_later_lines_and_logging_continues(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    tracker = logged(path, 0, 1, 2, 3, 4)
    kept = path.read_text().splitlines(keepends=True)[:3]
    tracker.rewind(2)
    assert path.read_text() == "".join(kept), "the kept lines are unchanged"
    tracker.log(3, {"kl": 1.0})
    assert steps_in(path) == [0, 1, 2, 3]
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.jsonl"]


def test_rewind_in_a_new_process_drops_an_incomplete_last_line(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    logged(path, 1, 2).close()
    with path.open("a") as file:
        file.write('{"step": 3, "kl": 0.')
    assert steps_in(path) == [1, 2]
    tracker = JsonlTracker(path)
    tracker.rewind(5)
    tracker.log(3, {"kl": 0.5})
    assert steps_in(path) == [1, 2, 3]


def test_rewind_before_the_first_step_empties_the_file(tmp_path: Path) -> None:
    tracker = logged(tmp_path / "m.jsonl", 0, 1)
    tracker.rewind(-1)
    assert (tmp_path / "m.jsonl").read_text() == ""


def test_rewind_without_a_file_does_nothing(tmp_path: Path) -> None:
    JsonlTracker(tmp_path / "m.jsonl").rewind(3)
    assert list(tmp_path.iterdir()) == []


def test_an_invalid_line_in_the_middle_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"step": 1}\ngarbage\n{"step": 2}\n')
    with pytest.raises(DataError, match="line 2"):
        read_metrics(path)


def test_a_list_becomes_a_histogram(tmp_path: Path) -> None:
    trackers = Trackers([JsonlTracker(tmp_path / "m.jsonl")])
    trackers.log(1, {"parts/format/histogram": [0.0, 0.0, 1.0, math.nan], "n": True})
    (row,) = read_metrics(tmp_path / "m.jsonl")
    histogram = row["parts/format/histogram"]
    assert histogram["counts"][0] == 2
    assert histogram["counts"][-1] == 1
    assert sum(histogram["counts"]) == 3
    assert (histogram["edges"][0], histogram["edges"][-1]) == (0.0, 1.0)


def test_histograms_of_few_values() -> None:
    assert Histogram.of([]) == Histogram((0.0, 1.0), (0,))
    one = Histogram.of([2.0, 2.0], bins=4)
    assert sum(one.counts) == 2
    assert one.edges[0] < 2.0 < one.edges[-1]
    assert Histogram.of([0.0, 1.0, 2.0, 3.0], bins=2) == Histogram((0.0, 1.5, 3.0), (2, 2))


def test_closing_reaches_every_tracker_even_if_one_fails(tmp_path: Path) -> None:
    class Broken(JsonlTracker):
        def close(self) -> None:
            raise OSError("gone")

    class Counting(JsonlTracker):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    last = Counting(tmp_path / "b")
    Trackers([Broken(tmp_path / "a"), last]).close()
    assert last.closed == 1
