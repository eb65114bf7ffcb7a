"""The files that ``steelyard init`` writes load, are consistent, and never overwrite existing files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from steelyard.config import load
from steelyard.data import load_tasks
from steelyard.errors import ConfigError, Invalid
from steelyard.templates import FILES, write_template
from steelyard.types import Task
from steelyard.verification import load_function


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_template(tmp_path / "new")
    monkeypatch.chdir(tmp_path / "new")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", {name: module for name, module in sys.modules.items() if name != "verifier"})
    return tmp_path / "new"


def test_the_configuration_loads_and_its_files_exist(folder: Path) -> None:
    config = load(folder / "steelyard.toml")
    assert config.tasks is not None
    assert config.verify.verifier == "verifier:score"
    assert (folder / str(config.tasks.file)).is_file()


def test_every_prompt_is_in_the_vocabulary_and_fits(folder: Path) -> None:
    config, tasks = load(folder / "steelyard.toml"), load_tasks(folder / "tasks.jsonl")
    scratch = config.model.scratch
    assert scratch is not None
    assert scratch.vocabulary is not None
    words = {word for task in tasks for word in str(task.prompt).split()}
    assert words <= set(scratch.vocabulary)
    assert len({task.prompt for task in tasks}) == len(tasks) >= 20


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("prompt", "text", "reward"),
    [
        ("write 3 even =", "2 4 8", 1.0),
        ("write 3 even =", "2 4 9", 2 / 3),
        ("write 3 even =", "2 4", 2 / 3),
        ("write 3 even =", "2 4 8 0 2 3", 5 / 6 / 2),
        ("write 3 even =", "1", 0.0),
        ("write 4 odd =", "1 9 1 3", 1.0),
        ("write 4 small =", "0 4 3 1", 1.0),
        ("write 4 large =", "5 9 8 0", 3 / 4),
    ],
)
def test_the_verifier_gives_graded_rewards(prompt: str, text: str, reward: float) -> None:
    task = next(task for task in load_tasks("tasks.jsonl") if task.prompt == prompt)
    verdict = load_function("verifier:score")(task, text)
    assert verdict.reward == pytest.approx(reward)
    assert verdict.success == (reward == 1.0)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", ["", "write", "1 even 2"])
def test_the_verifier_rejects_text_that_is_not_a_row_of_numbers(text: str) -> None:
    with pytest.raises(Invalid):
        load_function("verifier:score")(Task("t", "p", {"kind": "even", "count": 2}), text)


@pytest.mark.usefixtures("folder")
def test_every_task_has_a_right_answer() -> None:
    score = load_function("verifier:score")
    for task in load_tasks("tasks.jsonl"):
        answer = " ".join({"even": "8", "odd": "1", "small": "0", "large": "9"}[task.spec["kind"]] * task.spec["count"])
        assert score(task, answer).success, task.prompt


def test_the_verifier_is_about_twenty_lines(folder: Path) -> None:
    assert len((folder / "verifier.py").read_text().splitlines()) <= 25


@pytest.mark.parametrize("name", FILES)
def test_existing_files_are_not_overwritten(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(ConfigError, match=f"{name} already exists"):
        write_template(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_file_instead_of_a_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    for folder in (tmp_path / "taken", tmp_path / "taken" / "deeper"):
        with pytest.raises(ConfigError, match="is a file, not a folder"):
            write_template(folder)


def test_missing_parents_are_created(tmp_path: Path) -> None:
    assert [path.name for path in write_template(tmp_path / "a" / "b")] == list(FILES)
