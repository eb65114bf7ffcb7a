"""The code and the commands in docs/bricks.md run as written."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.cli import main

PAGE = Path(__file__).parents[4] / "docs" / "bricks.md"
TEXT = PAGE.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("highspy")
    pytest.importorskip("PIL")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def run_python() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def test_the_examples_run(tmp_path: Path) -> None:
    names = run_python()
    assert len(blocks("python")) == 3
    assert names["verdict"].stands
    assert names["outcome"](names["crossing"], names["brief"]).success
    written = {path.name for path in tmp_path.iterdir()}
    pictures = {"structure.svg", "structure.png", "growth.gif"}
    assert written == {"bridge.txt", *pictures, "structure.ldr", "structure.gltf"}


def test_the_commands_run_and_print_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    run_python()
    shutil.copy(PAGE.parent / "images" / "crane.txt", ".")
    lines = [line.partition(" #")[0] for block in blocks("sh") for line in block.splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("steelyard") and " bricks " in line]
    assert {words[0] for words in commands} == {"verify", "render", "export"}
    output = ""
    for words in commands:
        assert main(words) == 0
        output += capsys.readouterr().out
    (shown,) = [block for block in blocks("text") if "stands:" in block]
    assert set(shown.splitlines()) - {"…"} <= set(output.splitlines())
    for name in ("crane.png", "both.svg", "crane.ldr"):
        assert Path(name).is_file()


def test_the_picture_on_the_page_is_up_to_date() -> None:
    Image = pytest.importorskip("PIL.Image")
    main(["render", "bricks", str(PAGE.parent / "images" / "crane.txt"), "--out", "crane.png"])
    with Image.open("crane.png") as drawn, Image.open(PAGE.parent / "images" / "crane.png") as shown:
        assert drawn.size == shown.size
        differing = np.abs(np.asarray(drawn, float) - np.asarray(shown, float)).max(axis=2) > 32
    assert differing.mean() < 0.01, "fonts may differ slightly, bricks may not"
