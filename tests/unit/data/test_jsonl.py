"""Tasks written to a run folder are read back unchanged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.data import as_jsonl, as_tasks, jsonl, load_tasks
from steelyard.types import Task

CHAT = [{"role": "user", "content": "hello"}]


def test_written_tasks_read_back_unchanged(tmp_path: Path) -> None:
    rows = ["a prompt", {"prompt": "b", "answer": [1, {"x": None}], "id": 7}, {"prompt": CHAT, "difficulty": 0.1}]
    rows += [Task("t", "c", {"deep": {"y": 1.5}}, 3.0), Task("u", tuple(CHAT))]
    path = tmp_path / "tasks.jsonl"
    text = as_jsonl(rows)
    assert text is not None
    path.write_text(text, encoding="utf-8")
    assert load_tasks(path) == as_tasks(rows)


def test_the_prompt_column_keeps_its_name() -> None:
    assert as_jsonl(["a"], "question") == '{"id": "0", "question": "a"}\n'


@pytest.mark.parametrize(
    "rows",
    [
        [],
        (row for row in ["a"]),
        [{"prompt": "a", "array": np.zeros(2)}],
        [{"prompt": "a", "value": float("nan")}],
        [{"prompt": "a", 3: "number as a name"}],
        [Task("t", "a", {"prompt": "another"})],
        [3],
    ],
)
def test_rows_that_json_cannot_represent_are_not_written(rows: object) -> None:
    assert as_jsonl(rows) is None


def test_long_lists_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_ROWS", 2)
    assert as_jsonl(["a", "b"]) is not None
    assert as_jsonl(["a", "b", "c"]) is None
