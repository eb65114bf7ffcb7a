"""`steelyard plot`: output files, and messages for runs that cannot be plotted."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from .conftest import Call


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def make_run(folder: str, steps: int, *, torn: bool = False) -> Path:
    """Write the files of a run folder that `plot` reads."""
    path = Path(folder)
    path.mkdir(parents=True)
    (path / "config.toml").write_text("", encoding="utf-8")
    rows = [json.dumps({"step": step, "reward/mean": 0.1 * step, "success": "nan"}) for step in range(1, steps + 1)]
    (path / "metrics.jsonl").write_text("\n".join(rows) + ('\n{"step": ' if torn else "\n"), encoding="utf-8")
    return path


def texts(path: Path | str) -> list[str]:
    return [str(element.text) for element in ET.parse(path).getroot() if element.tag.endswith("text")]


def test_plot_writes_svg_and_png(call: Call) -> None:
    Image = pytest.importorskip("PIL.Image")
    run = make_run("runs/mine", 3, torn=True)
    assert call("plot", "runs/mine") == (0, "wrote runs/mine/curves.svg\nwrote runs/mine/curves.png\n", "")
    assert {"mine", "Reward", "Success", "3 steps", "3 not finite", "step"} <= set(texts(run / "curves.svg"))
    with Image.open(run / "curves.png") as image:
        assert image.width > 600
    assert call("plot", "mine")[0] == 0, "runs/ is searched for runs"


def test_several_runs_are_compared_in_one_chart(call: Call) -> None:
    make_run("runs/one", 3)
    make_run("runs/two", 5)
    code, out, _ = call("plot", "runs/one", "runs/two", "--out", "charts/both.svg")
    assert (code, out) == (0, "wrote charts/both.svg\n")
    assert {"one", "two", "2 runs", "5 steps"} <= set(texts("charts/both.svg"))
    assert call("plot", "runs/one", "runs/two")[1].startswith("wrote curves.svg\n")


def test_runs_with_equal_names_are_labelled_by_folder(call: Call) -> None:
    make_run("a/run", 2)
    make_run("b/run", 2)
    call("plot", "a/run", "b/run", "--out", "both.svg")
    assert {"a/run", "b/run"} <= set(texts("both.svg"))


def test_without_pillow_only_the_svg_is_written(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run("runs/mine", 2)
    monkeypatch.setitem(sys.modules, "PIL", None)
    code, out, err = call("plot", "runs/mine")
    assert (code, out) == (0, "wrote runs/mine/curves.svg\n")
    assert "no curves.png" in err
    assert "steelyard[pictures]" in err
    code, _, err = call("plot", "runs/mine", "--out", "mine.png")
    assert code == 2
    assert "steelyard[pictures]" in err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nope"], ["nope: no such run", "run folder"]),
        (["empty"], ["empty has no metrics yet", "start training first"]),
        (["good", "empty"], ["empty has no metrics yet"]),
        (["good", "--out", "x.pdf"], ["--out x.pdf", ".svg, .png"]),
        (["good", "--run.steps", "3"], ["does not accept --run.steps", "remove it"]),
        (["other"], ["nothing to plot"]),
    ],
)
def test_mistakes(call: Call, words: list[str], expected: list[str]) -> None:
    make_run("good", 1)
    make_run("empty", 0).joinpath("metrics.jsonl").unlink()
    make_run("other", 1).joinpath("metrics.jsonl").write_text('{"step": 1, "lr": 0.1}\n', encoding="utf-8")
    code, out, err = call("plot", *words)
    assert (code, out) == (2, "")
    assert all(part in err for part in expected)
    assert not list(Path().glob("**/*.svg"))
