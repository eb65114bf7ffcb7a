"""Loading task files of every format, and errors that name the file and line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard.data import load_tasks
from steelyard.errors import DataError, MissingExtraError
from steelyard.types import Task

ROWS: list[dict[str, Any]] = [{"prompt": "a", "answer": 1}, {"prompt": [{"role": "user", "content": "b"}], "answer": 2}]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_jsonl_rows_get_their_line_number_as_id(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", json.dumps(ROWS[0]) + "\n\n" + json.dumps(ROWS[1]) + "\n" + '"just a prompt"\n')
    assert load_tasks(path) == [
        Task("1", "a", {"answer": 1}),
        Task("3", ({"role": "user", "content": "b"},), {"answer": 2}),
        Task("4", "just a prompt"),
    ]


@pytest.mark.parametrize("content", [ROWS, {"prompts": ROWS}])
def test_json_holds_a_list_or_an_object_with_prompts(content: object, tmp_path: Path) -> None:
    tasks = load_tasks(write(tmp_path / "t.json", json.dumps(content)))
    assert [(task.id, task.spec["answer"]) for task in tasks] == [("1", 1), ("2", 2)]


def test_prompts_may_be_plain_strings(tmp_path: Path) -> None:
    assert load_tasks(write(tmp_path / "t.json", '{"prompts": ["a", "b"]}')) == [Task("1", "a"), Task("2", "b")]


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"question": ["a", "b"], "answer": [1, 2], "tests": [["x"], []], "id": ["q1", "q2"]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    assert load_tasks(tmp_path / "t.parquet", prompt_column="question") == [
        Task("q1", "a", {"answer": 1, "tests": ["x"]}),
        Task("q2", "b", {"answer": 2, "tests": []}),
    ]


def test_the_limit_keeps_the_first_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", '{"prompt": "a"}\n{"prompt": "b"}\nnot reached\n')
    assert [task.prompt for task in load_tasks(path, limit=2)] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.jsonl", '{"prompt": "a"}\n{"prompt": \n', r"t\.jsonl, line 2: not JSON \(.* at column"),
        ("t.jsonl", '{"prompt": "a"}\n\n{"text": "b"}\n', r"t\.jsonl, line 3: no column 'prompt' among \['text'\]"),
        ("t.jsonl", "3\n", r"t\.jsonl, line 1: .*'prompt', got int"),
        ("t.jsonl", "\n", r"t\.jsonl contains no tasks"),
        ("t.jsonl", '{"prompt": "a", "id": 1}\n{"prompt": "b", "id": 1}\n', "duplicate id '1'.*unique"),
        ("t.json", '[\n{"prompt": }]', r"t\.json, line 2: not JSON"),
        ("t.json", '{"tasks": []}', r"t\.json: expected a list of tasks or"),
        ("t.json", '[{"prompt": "a"}, {"prompt": ""}]', r"t\.json, entry 2: the prompt is empty"),
        ("t.parquet", "not parquet", r"t\.parquet: not a parquet file"),
        ("t.csv", "prompt\na\n", r"t\.csv: .*use \.jsonl, \.json, \.parquet"),
    ],
)
def test_errors_name_the_file_and_the_line(name: str, content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        load_tasks(write(tmp_path / name, content))


def test_the_error_for_a_missing_file_names_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=f"absent.jsonl: no such file .*{tmp_path}"):
        load_tasks("absent.jsonl")


class Hub:
    """Stands in for the ``datasets`` package."""

    def __init__(self) -> None:
        self.requested: tuple[object, ...] = ()

    def load_dataset(self, name: str, subset: str | None, *, split: str) -> list[dict[str, Any]]:
        self.requested = (name, subset, split)
        if name == "nobody/absent":
            raise FileNotFoundError("not on the hub")
        return ROWS


def test_hub_data_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    monkeypatch.setitem(sys.modules, "datasets", hub)  # pyright: ignore[reportArgumentType]
    tasks = load_tasks("hf:owner/name", subset="main", split="test")
    assert hub.requested == ("owner/name", "main", "test")
    assert [task.id for task in tasks] == ["1", "2"]
    with pytest.raises(DataError, match=r"hf:nobody/absent \(subset None, split train\): FileNotFoundError: not on"):
        load_tasks("hf:nobody/absent")


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("datasets", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"hub dataset owner/name.*steelyard\[data\]"):
        load_tasks("hf:owner/name")
    with pytest.raises(MissingExtraError, match=r"reading t\.parquet.*steelyard\[data\]"):
        load_tasks(write(tmp_path / "t.parquet", ""))
