"""The code of docs/bricks.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[4] / "docs" / "bricks.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("highspy")
    pytest.importorskip("PIL")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert len(blocks) == 3
    assert names["verdict"].stands
    assert names["outcome"](names["crossing"], names["brief"]).success
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"structure.svg", "structure.png", "growth.gif", "structure.ldr", "structure.gltf"}
