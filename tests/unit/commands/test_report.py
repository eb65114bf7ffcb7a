"""`steelyard report`: a summary of many artifacts as a table and a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.cli import main

MODEL = (
    "GAUGE U(1) SU(2) SU(3) SSB S1 2 1 +1/2 c2 2e2 MULTIPLETS F1 left 2 1 -1/2 x3 F2 right 1 1 -1 x3 "
    "F3 left 2 3 +1/6 x3 F4 right 1 3 +2/3 x3 F5 right 1 3 -1/3 x3 INTERACTIONS"
)


@pytest.fixture
def artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    path = tmp_path / "artifacts.txt"
    path.write_text(f"{MODEL}\n{MODEL.replace('x3', 'x2')}\n{MODEL}\nGAUGE\n", encoding="utf-8")
    return path


def test_a_report_on_files(artifacts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "theories", str(artifacts)]) == 0
    output = capsys.readouterr().out
    assert "3 of 4 samples are consistent theories (3 readable); 2 distinct" in output
    assert "has the fields of Standard Model" in output
    page = Path("report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2


def test_the_page_is_written_to_out(artifacts: Path, tmp_path: Path) -> None:
    assert main(["report", "theories", str(artifacts), "--out", str(tmp_path / "a" / "page.html")]) == 0
    assert (tmp_path / "a" / "page.html").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["theories"], "theories is a domain: also pass files containing its artifacts"),
        (["theory", "artifacts.txt"], "did you mean theories?"),
        (["theories", "none.txt"], "none.txt: no such file"),
    ],
)
def test_mistakes(words: list[str], expected: str, artifacts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", *words]) != 0
    assert expected in capsys.readouterr().err
