"""Selection of samples, and the files written for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from steelyard.text import printable
from steelyard.tracking import ArtifactTracker, ShownSample, select_samples
from steelyard.tracking.artifacts import markdown
from steelyard.tracking.shown import prompt_text
from steelyard.types import Decisions, Group, Sample, SampleKey, Task, Verdict

NONE = np.zeros(0, np.int32)


def sample(slot: int, index: int) -> Sample:
    decisions = Decisions(NONE, NONE, np.zeros(0, np.float32))
    return Sample(SampleKey(1, slot, 0, index), NONE, 0, f"text {slot}.{index}", "stop", decisions)


def group(slot: int, *verdicts: Verdict) -> Group:
    samples = tuple(sample(slot, index) for index in range(len(verdicts)))
    return Group(Task(f"task-{slot}", "make it"), samples, verdicts)


def chosen(*groups: Group) -> list[tuple[str, str]]:
    return [(shown.label, shown.text) for shown in select_samples(groups)]


def test_best_median_and_worst_are_selected_over_all_groups() -> None:
    first = group(0, Verdict.scored(0.2), Verdict.scored(0.9), Verdict.unscored("crash"))
    second = group(1, Verdict.rejected("bad", floor=-1.0), Verdict.scored(0.5), Verdict.scored(0.4))
    assert chosen(first, second) == [("best", "text 0.1"), ("median", "text 1.2"), ("worst", "text 1.0")]


def test_ties_are_ordered_by_slot_and_sample_for_any_order_of_groups() -> None:
    groups = [group(slot, *[Verdict.scored(1.0)] * 3) for slot in (1, 0)]
    assert chosen(*groups) == [("best", "text 0.0"), ("median", "text 0.2"), ("worst", "text 1.2")]


def test_fewer_than_three_samples() -> None:
    assert chosen() == []
    assert chosen(group(0, Verdict.unscored("crash"))) == []
    assert chosen(group(0, Verdict.scored(1.0))) == [("best", "text 0.0")]
    assert chosen(group(0, Verdict.scored(0.0), Verdict.scored(1.0))) == [("best", "text 0.1"), ("worst", "text 0.0")]


SHOWN = [
    ShownSample(
        "best", "t1", "Say ```hi```", "fine\n```code```", Verdict.scored(1.0, success=True, parts={"form": 0.5})
    ),
    ShownSample("worst", "t2", ({"role": "user", "content": "Q"},), "\x1b[31mred", Verdict.rejected("no answer")),
]


def test_both_files_contain_the_selected_samples(tmp_path: Path) -> None:
    ArtifactTracker(tmp_path / "artifacts").samples(10, SHOWN)
    page = (tmp_path / "artifacts" / "samples-00000010.md").read_text()
    assert "reward 1 · success · form 0.5" in page
    assert "rejected: no answer" in page
    assert "````text\nSay ```hi```\n````" in page, "the fence is longer than the backticks in the text"
    assert "user: Q" in page
    assert "\x1b" not in page
    rows = [json.loads(line) for line in (tmp_path / "artifacts" / "samples-00000010.jsonl").read_text().splitlines()]
    assert [row["label"] for row in rows] == ["best", "worst"]
    assert rows[1]["text"] == "\x1b[31mred", "the machine-readable file keeps the text unchanged"
    assert rows[1]["prompt"] == [{"role": "user", "content": "Q"}]
    assert Verdict.from_json(rows[0]["verdict"]) == SHOWN[0].verdict


def test_rewind_removes_later_samples_only(tmp_path: Path) -> None:
    tracker = ArtifactTracker(tmp_path)
    for step in (5, 10, 15):
        tracker.samples(step, SHOWN)
    (tmp_path / "notes-00000099.md").write_text("mine")
    tracker.rewind(10)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "notes-00000099.md",
        "samples-00000005.jsonl",
        "samples-00000005.md",
        "samples-00000010.jsonl",
        "samples-00000010.md",
    ]
    ArtifactTracker(tmp_path / "none").rewind(3)


def test_control_characters_are_made_visible() -> None:
    assert (
        printable("a\tb\r\nc\x1b[2J\x7f\x9b\u202e") == "a   b\nc␛[2J␡\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    )
    assert printable("é日本 ✓") == "é日本 ✓"


def test_chat_messages_are_formatted_as_text() -> None:
    assert prompt_text(({"role": "system", "content": "A"}, {"role": "user", "content": "B"})) == "system: A\nuser: B"


def test_a_picture_is_written_next_to_the_page_and_linked(tmp_path: Path) -> None:
    ArtifactTracker(tmp_path, lambda shown: f"<svg>{len(shown)}</svg>".encode()).samples(10, SHOWN)
    assert (tmp_path / "samples-00000010.svg").read_bytes() == b"<svg>2</svg>"
    assert "![the samples](samples-00000010.svg)" in (tmp_path / "samples-00000010.md").read_text()
    assert "svg" not in markdown(10, SHOWN), "no link without a picture"


def test_rewind_removes_pictures_with_their_samples(tmp_path: Path) -> None:
    tracker = ArtifactTracker(tmp_path, lambda shown: b"<svg/>")
    tracker.samples(5, SHOWN)
    tracker.samples(10, SHOWN)
    tracker.rewind(5)
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == ["samples-00000005.svg"]


def test_if_drawing_fails_the_samples_are_still_written_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(shown: Sequence[ShownSample]) -> bytes:
        raise RuntimeError("no ink")

    ArtifactTracker(tmp_path, fail).samples(10, SHOWN)
    assert {path.name for path in tmp_path.iterdir()} == {"samples-00000010.jsonl", "samples-00000010.md"}
    assert "svg" not in (tmp_path / "samples-00000010.md").read_text()
    assert "step 10 could not be rendered: RuntimeError: no ink" in caplog.text
