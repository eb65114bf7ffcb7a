"""File system failures and bad data produce a message with a solution, not a traceback."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from steelyard import config as configs
from steelyard.cli import explain, main
from steelyard.config.nesting import DEEPEST, too_deep
from steelyard.data import load_tasks
from steelyard.errors import CheckpointError, ConfigError, DataError
from steelyard.folders import RunLock, read_run, read_run_info, write_config, write_run_info

DEEP = "[" * 100_000 + "]" * 100_000


def nested(levels: int) -> list[object]:
    data: list[object] = []
    for _ in range(levels - 1):
        data = [data]
    return data


def test_depth_is_counted_without_recursion() -> None:
    assert not too_deep(nested(DEEPEST))
    assert too_deep(nested(DEEPEST + 1))
    assert too_deep({"a": (1, {"b": nested(100_000)})})
    assert not too_deep({"a": [1] * 1000, "b": "text"})


@pytest.mark.parametrize("spec", [DEEP, "[" * 400 + "]" * 400])
def test_the_error_for_a_deep_spec_names_its_line(tmp_path: Path, spec: str) -> None:
    for name, content in (
        ("t.jsonl", f'{{"prompt": "a", "deep": {spec}}}'),
        ("t.json", f'[{{"prompt": "a", "d": {spec}}}]'),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(DataError, match=rf"{name}.*nested more than 100 levels"):
            load_tasks(tmp_path / name)


def test_a_prompt_with_half_a_character(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"prompt": "ab\\ud800"}')
    with pytest.raises(DataError, match=r"line 1: .*lone surrogate.* at index 2"):
        load_tasks(tmp_path / "t.jsonl")


def test_deep_options(tmp_path: Path) -> None:
    (tmp_path / "deep.toml").write_text(f"domain = {{name = 'x', options = {{deep = {DEEP}}}}}")
    with pytest.raises(ConfigError, match=r"deep\.toml: nested more than 100 levels"):
        configs.load(tmp_path / "deep.toml")
    with pytest.raises(ConfigError, match=r"domain\.options: .*nested"):
        configs.load("sequences", ["--domain.options", f"{{deep = {DEEP}}}"])


@pytest.mark.parametrize("content", [b'[run]\nname = "to', b"\xff\xfe\0", b"[run"])
def test_a_damaged_configuration(tmp_path: Path, content: bytes) -> None:
    config = configs.load("sequences")
    write_config(tmp_path, config)
    (tmp_path / "config-until-step-00000010.toml").touch()
    (tmp_path / "config.toml").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"config\.toml.*restore.*config-until-step-00000010\.toml"):
        read_run(tmp_path)
    with pytest.raises(CheckpointError, match="restore"):
        write_config(tmp_path, config)


def test_a_damaged_run_json_is_ignored(tmp_path: Path) -> None:
    assert read_run_info(tmp_path) == {}
    write_run_info(tmp_path, {"a": 1})
    assert read_run_info(tmp_path) == {"a": 1}
    (tmp_path / "run.json").write_text('{"a":')
    assert read_run_info(tmp_path) == {}


def test_run_folder_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(ConfigError, match=r"runs is a file.*--run\.folder"):
        RunLock(tmp_path / "runs" / "mine")
    with pytest.raises(ConfigError, match=r"runs is a file.*--run\.folder"):
        RunLock(tmp_path / "runs")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_failing_disk_gets_a_solution(number: int) -> None:
    message = explain(OSError(number, "it failed", "runs/x/config.toml"))
    assert "runs/x/config.toml: it failed" in message
    assert "--run.folder" in message


def test_a_bug_keeps_its_traceback() -> None:
    assert explain(OSError(errno.EBADF, "Bad file descriptor")) == ""
    assert explain(ValueError("x")) == ""


def test_messages_contain_no_escape_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "no\x1b[2Jthing"]) == 2
    assert "\x1b" not in capsys.readouterr().err
